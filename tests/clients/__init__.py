"""Clients that generators make of the document."""
