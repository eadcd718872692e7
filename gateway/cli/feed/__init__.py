"""The commands that read the events feed."""
