"""The browser that these tests share."""

from tests.fakes.chromium import chromium as chromium  # noqa: PLC0414 - a fixture is found by its name here
