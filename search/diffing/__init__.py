"""Two texts side by side: which lines differ, and the table that shows it. Bounded in work: no text can hang a page."""
