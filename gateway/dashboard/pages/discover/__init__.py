"""The pages of discover: its runs and its schedules."""
