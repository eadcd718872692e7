"""Pages in the operator's Chromium, spoken to over its DevTools WebSocket (decisions 21)."""
