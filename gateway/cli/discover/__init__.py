"""The commands of discover runs."""
