"""Inputs of the kinds that users report as misread, sent through a whole node."""
