"""Reads requests and writes the heads of responses in HTTP/1.1."""
