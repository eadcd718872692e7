"""Real servers for tests, each in a temporary folder on a free loopback port and ended by its own id."""
