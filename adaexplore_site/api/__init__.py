"""The REST API: the readers and acts of the pages for programs. See docs/api.md."""
