"""A whole node in virtual time, in a world generated from a seed; `python -m tests.simulation SEED` replays one."""
