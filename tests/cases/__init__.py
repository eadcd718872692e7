"""Inputs of kinds that users report as misread, through a whole node."""
