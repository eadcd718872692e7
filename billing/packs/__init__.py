"""Packs of credits: sales, grants, and reversed payments."""
