"""One folder per platform: its recorded exchanges as cases, handmade bodies, and tests over its stand-in."""

import pytest

pytest.register_assert_rewrite("tests.platforms.case", "tests.platforms.drive")
