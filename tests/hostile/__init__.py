"""Uses of a node that nobody wishes it, over real processes and sockets."""
