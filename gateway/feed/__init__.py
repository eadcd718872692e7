"""The events feed over HTTP: valid queries, held polls, and page responses (spec 4.4)."""
