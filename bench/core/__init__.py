"""Scenarios, settings, results, processes and errors: the base of every part of the bench."""
