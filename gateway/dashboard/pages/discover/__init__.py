"""The pages of Discover: runs and schedules."""
