"""Places in which commands run, like in the tests of the commands."""

from tests.gateway.cli.conftest import place

__all__ = ["place"]
