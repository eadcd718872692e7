"""The routes of the web's sessions."""
