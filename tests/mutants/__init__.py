"""Checks the tests by breaking the program: how many seeded small faults does a test find?"""
