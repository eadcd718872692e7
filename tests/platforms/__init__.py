"""One folder a platform: its recorded exchanges as cases, hand-made bodies, and a walk through its stand-in."""

import pytest

pytest.register_assert_rewrite("tests.platforms.case", "tests.platforms.drive")
