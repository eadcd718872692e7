"""Discover runs whose nodes are killed again and again: each page is read on, each row kept once, each credit told."""
