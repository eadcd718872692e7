"""What the gate does with tests that fail: a second try for most of them, none for the critical ones."""
