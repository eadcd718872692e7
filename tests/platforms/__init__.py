"""One folder per platform: cases from its recorded exchanges, handmade bodies, and tests with its stand-in."""

import pytest

pytest.register_assert_rewrite("tests.platforms.case", "tests.platforms.drive")
