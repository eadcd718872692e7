"""Discover runs whose nodes are killed repeatedly: each page continued, each row stored once, each credit recorded."""
