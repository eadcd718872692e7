"""Worker processes of a node: long work of pure functions, which holds up nobody and can be ended."""
