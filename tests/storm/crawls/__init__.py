"""Crawls whose node is killed repeatedly: each page is continued, stored once and paid once."""
