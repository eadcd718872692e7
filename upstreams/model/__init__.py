"""The model of platforms: endpoints, parameters, archetypes, and the steps of a read."""
