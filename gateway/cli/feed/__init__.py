"""Commands that read the events feed."""
