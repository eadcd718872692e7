"""Scenarios, settings, results, processes and errors: what every part of the bench stands on."""
