"""A new node for each test in this folder."""

from tests.fakes.fresh_node import node as node  # noqa: PLC0414 - a fixture is found by its name here
