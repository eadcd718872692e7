"""Real servers for tests, each in a temporary folder on a free loopback port, ended by its process id."""
