"""The App Store."""
