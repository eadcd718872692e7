"""WebSockets on the native engine."""
