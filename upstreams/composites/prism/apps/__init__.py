"""Prism's composites over app stores (decisions 18)."""
