"""Watches of the web: monitors whose runs compare pages with what they were (decisions 21)."""
