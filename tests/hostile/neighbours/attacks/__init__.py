"""The attacks, a module for each subject."""
