"""Response types of routes other than data endpoints, with the descriptions that readers of the docs see."""
