"""Cohorts: private panels of accounts whose posts are searched, sealed with a key of their own (decisions 20)."""
