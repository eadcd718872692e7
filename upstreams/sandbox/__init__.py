"""The built-in upstream sandbox: answers as the platforms do, with invented data, over real HTTP on loopback."""
