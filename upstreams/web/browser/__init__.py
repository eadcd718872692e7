"""Pages in the operator's Chromium, which is controlled over its DevTools WebSocket (decisions 21)."""
