"""A whole node on virtual time, its world made from one seed; `python -m tests.simulation SEED` replays one."""
