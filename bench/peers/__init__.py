"""The servers under test, and the peers they are compared with."""
