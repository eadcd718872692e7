"""Load generators, in the closed and the open loop."""
