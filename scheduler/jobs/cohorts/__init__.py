"""Cohorts: private panels of accounts whose posts can be searched, each sealed with its own key (decisions 20)."""
