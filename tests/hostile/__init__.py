"""Attacks on a node, over real processes and sockets."""
