"""The servers under test, and peers to compare with."""
