"""Load shedding, and which requests are refused first."""
