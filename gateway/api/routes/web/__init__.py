"""The routes of web sessions."""
