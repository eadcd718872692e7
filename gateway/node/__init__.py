"""A running node: how its parts are wired, started, watched, reloaded and stopped."""
