"""Requests, replies, parameters, errors and envelopes: what every route shares."""
