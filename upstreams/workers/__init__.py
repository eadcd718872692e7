"""Worker processes of a node: CPU-intensive work of pure functions, which blocks no other work and can be killed."""
