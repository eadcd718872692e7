"""Running a read: sources in turn, walks over pages, answers judged."""
