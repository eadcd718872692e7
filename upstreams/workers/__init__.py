"""Worker processes of a node. They run CPU-intensive pure functions, do not block other work, and can be killed."""
