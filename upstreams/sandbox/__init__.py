"""The built-in sandbox: it answers like the upstream platforms, with invented data, over real HTTP on loopback."""
