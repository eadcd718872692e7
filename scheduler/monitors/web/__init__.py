"""Web watches: monitors whose runs compare pages with their earlier text (decisions 21)."""
