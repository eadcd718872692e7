"""Runs reads: tries sources in turn, collects pages, and classifies answers."""
