"""Queries over cohorts whose nodes are killed repeatedly: each row once, each page paid once, nothing revealed."""
