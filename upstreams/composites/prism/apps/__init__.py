"""Prism's composites over stores of apps (decisions 18)."""
