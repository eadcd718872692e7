"""GitLab."""
