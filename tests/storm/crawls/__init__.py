"""Crawls whose node is killed repeatedly: each page is stored once and paid once."""
