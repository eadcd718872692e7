"""Pages in the operator's Chromium, controlled through its DevTools WebSocket (decisions 21)."""
