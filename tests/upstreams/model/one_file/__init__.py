"""A family of archetypes and a check of everything that follows from it, for `test_one_file`."""
