"""Cohorts and their queries over HTTP."""
