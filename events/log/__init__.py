"""The log of events: appended, read in pages, and removed when old."""
