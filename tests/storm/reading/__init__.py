"""Many long pages of the web at once, and how long others wait meanwhile."""
