"""Places in which commands run, as in the tests of the commands."""

from tests.gateway.cli.conftest import place

__all__ = ["place"]
