"""Prism's composites about apps in several stores (decisions 18)."""
