"""Discover runs whose nodes are killed repeatedly: each row is stored once, and each credit is accounted for."""
