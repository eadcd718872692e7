"""WebSockets of the native engine."""
