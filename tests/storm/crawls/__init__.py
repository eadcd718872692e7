"""Crawls whose node is killed again and again: each page is read on, kept once and paid once."""
