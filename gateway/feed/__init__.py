"""The events feed over HTTP: queries, long-polls, and pages (spec 4.4)."""
