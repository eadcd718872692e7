"""The browser that the tests in this folder share."""

from tests.fakes.chromium import chromium as chromium  # noqa: PLC0414 - a fixture is found by its name here
