"""Requests, replies, parameters, errors and envelopes, shared by all routes."""
