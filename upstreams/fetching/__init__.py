"""Runs reads: tries sources in turn, walks over pages, and classifies answers."""
