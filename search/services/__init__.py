"""Everything that changes rows of the search. Keyword-only functions named `<noun>_<verb>`; one transaction each."""
