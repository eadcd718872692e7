"""Clients that generators build from the OpenAPI document."""
