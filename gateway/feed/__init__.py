"""The events feed over HTTP: what may be asked, how polls are held, and how pages are answered (spec 4.4)."""
