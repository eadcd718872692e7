"""Scenarios, settings, results, processes and errors, which every part of the bench uses."""
