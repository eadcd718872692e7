"""Stack Exchange."""
