"""Hostile uses of a node, over real processes and sockets."""
