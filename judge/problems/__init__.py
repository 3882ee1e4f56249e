"""Problems: upload, import, preflight, their pages."""
