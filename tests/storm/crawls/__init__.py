"""Crawls whose node is killed repeatedly: each page is stored once and charged once."""
