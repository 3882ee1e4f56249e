"""Many searches as one unit: campaigns and adapt runs, and the site's budget."""
