"""Packs of credits: sold, granted, and taken back."""
