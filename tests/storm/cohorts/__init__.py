"""Queries over cohorts whose nodes are killed again and again: each row once, each page paid once, nothing told."""
