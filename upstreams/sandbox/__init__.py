"""The built-in sandbox. It answers like the upstream platforms, with invented data, over real HTTP on loopback."""
