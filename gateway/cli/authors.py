"""The commands of `sluice platforms` for authors of platforms: `new`, `check` and `tables`. They need a checkout."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from gateway.cli.run import Refusal, json_option, known_platforms, no_platform, say, show
from upstreams.skeletons import KINDS, SkeletonRefused, write_skeleton

_CHECK: Final = "tests.gate.one_platform"
"""The module that runs the tests of platforms. A wheel does not contain it."""


@click.command()
@click.argument("slug")
@click.option(
    "--kind",
    type=click.Choice([*KINDS]),
    default="json",
    show_default=True,
    help="A JSON API, a feed (RSS or Atom), a JSON API with a sign-in, a supplier, or queries sent as JSON by POST.",
)
@click.option("--folder", default=".", show_default=True, help="Checkout to write into.")
@json_option
def new(slug: str, kind: str, folder: str, as_json: bool) -> None:
    """Write the skeleton of a platform: its declaration, records, stand-in and test cases. Its tests pass."""
    try:
        written = write_skeleton(slug, Path(folder), kind)
    except SkeletonRefused as exc:
        raise Refusal(str(exc), exit_code=2) from exc
    show([{"written": str(path)} for path in written], as_json=as_json)


@click.command()
@click.argument("slug")
@click.argument("more_slugs", nargs=-1)
@click.option("--whole", is_flag=True, help="Also send every hostile value to every parameter, which takes longer.")
def check(slug: str, more_slugs: tuple[str, ...], whole: bool) -> None:
    """Run all tests of a platform, or of several. Prints a line for each group of tests. Exit 1 if a test fails."""
    folder, known = _checkout(), known_platforms()
    slugs = (slug, *more_slugs)
    for one in slugs:
        if one not in known:
            raise no_platform(one, known)
    if find_spec("pytest") is None:
        raise Refusal("the tests need pytest. Run: pip install -e '.[test]'", exit_code=2)
    command = [sys.executable, "-m", _CHECK, *slugs, *(["--whole"] if whole else ())]
    if subprocess.run(command, cwd=folder, check=False).returncode != 0:  # noqa: S603 - it runs this program's tests
        raise Refusal(f"tests of {', '.join(slugs)} failed")


@click.command()
@click.option("--check", "only_checks", is_flag=True, help="Write nothing. Exit 1 if a document is out of date.")
def tables(only_checks: bool) -> None:
    """Write the tables of platforms into the documents, and docs/platform-reference.md, from the declarations.

    Only the integrator of several branches needs this command.
    """
    from gateway.docs.platform_tables import outdated

    folder = _checkout()
    found = outdated(folder)
    names = [str(path.relative_to(folder)) for path in found]
    if only_checks and found:
        raise Refusal(f"out of date: {', '.join(names)}. Run: sluice platforms tables")
    for path, text in found.items():
        path.write_text(text)
    for name in names:
        say(f"written: {name}")


def _checkout() -> Path:
    """Return the checkout that this program runs from.

    Raises:
        Refusal: The program was installed without its tests.
    """
    folder = Path(__file__).resolve().parents[2]
    if not (folder / f"{_CHECK.replace('.', '/')}.py").is_file():
        raise Refusal(
            f"this sluice does not run from a checkout: {folder} has no tests. Clone the repository, and run there:"
            " pip install -e '.[test]'",
            exit_code=2,
        )
    return folder
