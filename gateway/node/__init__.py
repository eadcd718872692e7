"""Builds the parts of a node, and starts, watches, reloads and stops them."""
