"""Check whole matrices: every endpoint with every value and every source, of all platforms or of some.

    python -m tests.gate.whole                    all platforms, in several processes
    python -m tests.gate.whole mastodon lemmy     these platforms, with the tests in their own folders

The gate checks a sixth of these matrices (`tests.gate.matrix`). Exits with pytest's exit code, or with 2 if there is no
such platform.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from tests.conftest import PROCESSES
from tests.gate.matrix import EVERYTHING, WHOLE
from upstreams.composites import composite_slugs
from upstreams.platforms import platform_slugs

PROJECT: Final = Path(__file__).resolve().parents[2]
MATRICES: Final = (
    "tests/cases/test_capped_keys.py::test_every_endpoint_counts_toward_its_key_and_stops_at_its_cap",
    "tests/cases/test_empty_lists.py::test_every_empty_list_of_every_platform_is_free",
    "tests/cases/test_empty_lists.py::test_guides_state_the_billing_rules_of_their_endpoint",
    "tests/cases/test_small_budgets.py::test_reserved_credits_refuse_every_endpoint_only_temporarily",
    "tests/platforms/test_astray.py",
    "tests/platforms/test_credentials_stay.py",
    "tests/platforms/test_fallbacks.py",
    "tests/platforms/test_filled.py",
    "tests/platforms/test_odd_bodies.py",
    "tests/platforms/test_recordings.py",
    "tests/platforms/test_roles.py",
    "tests/platforms/test_spellings.py",
    "tests/platforms/test_stand_ins.py",
    "tests/spec/test_2_1_envelope.py::test_response_has_envelope_records_and_a_free_repetition",
    "tests/spec/test_2_4_guide.py::test_guide_has_every_field_and_its_request_works",
    "tests/spec/test_4_3_pagination.py::test_list_follows_the_pagination_contract",
    "tests/spec/test_7_2_no_500.py::test_no_parameter_value_causes_an_internal_error",
    "tests/spec/test_8_cache.py::test_endpoints_are_cached_for_the_ttl_of_their_kind",
    "tests/spec/test_price_asked.py::test_dry_run_estimate_is_the_minimum_max_credits",
)
"""The tests that apply to every platform."""


def slugs() -> tuple[str, ...]:
    """Return the slugs of all platforms, including those that combine others."""
    return (*platform_slugs(), *composite_slugs())


def tests_of(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the tests to run for these platforms: the matrices, and the platforms' own tests."""
    return (*folders_of(wanted), *MATRICES)


def folders_of(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the folders with the own tests of these platforms. Platforms that combine others have none."""
    return tuple(folder for slug in wanted if (PROJECT / (folder := f"tests/platforms/{slug}")).is_dir())


def main(wanted: Sequence[str]) -> int:
    """Run the tests and return the exit code."""
    known = slugs()
    for slug in wanted:
        if slug not in known:
            near = "".join(f" Did you mean `{one}`?" for one in get_close_matches(slug, known, n=1))
            print(f"There is no platform `{slug}`.{near}", file=sys.stderr)
            return 2
    processes = 0 if wanted else PROCESSES
    command = [sys.executable, "-m", "pytest", "-n", str(processes), *tests_of(wanted)]
    environ = {**os.environ, WHOLE: ",".join(wanted) or EVERYTHING}
    return subprocess.run(command, cwd=PROJECT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
