"""A running node: wires, starts, watches, reloads and stops its parts."""
