"""Wikipedia."""
