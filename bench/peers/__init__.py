"""The servers under test, and those to compare with."""
