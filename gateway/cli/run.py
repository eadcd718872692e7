"""Steps shared by commands: load the config and secrets, run Trio, and turn errors into one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
import orjson

from events.instants import iso, no_instant, unix
from gateway.config import Config, ConfigError, load_config
from gateway.config.secrets import Secrets, SecretUnusable, doubt_of, load_secret
from gateway.observability.standard_streams import STDOUT, print_out, write_all
from storage.errors import StorageError
from storage.opening import linked_folder, refuse_lost
from storage.private_files import make_folder
from upstreams.composites import composite_slugs
from upstreams.platforms import platform_slugs

if TYPE_CHECKING:
    from upstreams.model.endpoint import Platform

T = TypeVar("T")


class Refusal(Exception):
    """End the command with these lines on stderr and this exit code."""

    def __init__(self, *lines: str, exit_code: int = 1) -> None:
        super().__init__(lines[0])
        self.lines = lines
        self.exit_code = exit_code


config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(),
    default=None,
    help="Config file (default SLUICE_CONFIG, else ./config.toml).",
)


class WholeNumber(click.IntRange):
    """A whole number within bounds. In error messages, the type is called "whole number"."""

    name = "whole number"


port_type = WholeNumber(0, 65_535)


def instant(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Validate a time and return it as written. An invalid time counts as wrong usage (exit 2)."""
    if text is not None:
        try:
            iso(unix(text))
        except (ValueError, OverflowError) as exc:
            raise click.BadParameter(no_instant(text)) from exc
    return text


def confirm(question: str) -> None:
    """Ask for confirmation. Raises Refusal if the user declines, or if there is no terminal."""
    try:
        agreed = click.confirm(question, err=True)
    except click.Abort as exc:
        click.echo(err=True)
        raise Refusal("not confirmed; nothing was done. Use --yes to skip the question") from exc
    if not agreed:
        raise Refusal("not confirmed; nothing was done")


def no_platform(slug: str, known: Iterable[str]) -> Refusal:
    """Return the error for an unknown slug, with the most similar known slug."""
    near = get_close_matches(slug, known, n=1)
    return Refusal(f"unknown platform {slug}" + (f"; did you mean {near[0]}?" if near else ""), exit_code=2)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@cache
def known_platforms() -> frozenset[str]:
    """Return the slugs that config.toml may contain.

    The folders are listed once per process, so that a node without free descriptors can still read its config again.
    """
    return frozenset((*platform_slugs(), *composite_slugs()))


def credentials_by_platform(platforms: Iterable[Platform]) -> dict[str, tuple[str, ...]]:
    """Return the credentials that each platform can use, by slug."""
    return {one.slug: one.credentials for one in platforms}


def read_config(path: str | None, *, to_serve: bool = False) -> Config:
    """Load the config of a command. With `to_serve`, also check the certificate of the node.

    Raises:
        Refusal: exit 2, with a line for each problem.
    """
    try:
        return load_config(path, os.environ, known_platforms(), to_serve=to_serve)
    except ConfigError as exc:
        raise Refusal(*exc.lines(), exit_code=2) from exc


def read_secrets(config: Config, *, new_store: bool = False) -> Secrets:
    """Load the secrets of a command. The data folder is created if it is missing.

    If the store is missing, no secret is created unless `new_store` is set, because a new secret could not decrypt the
    keys of a restored store.

    Raises:
        Refusal: exit 1, with the reason.
    """
    folder = _secret_folder(config)
    try:
        make_folder(folder)
        if not new_store:
            refuse_lost(config.store.url)
        return load_secret(os.environ, folder)
    except OSError as exc:
        raise Refusal(f"{folder}: cannot be created: {exc.strerror}") from exc
    except (SecretUnusable, StorageError) as exc:
        raise Refusal(str(exc)) from exc


def doubt_of_secret(config: Config, *, exit_code: int = 1) -> str | None:
    """Return why the master secret is weak, or None. Raises Refusal if it is unusable."""
    try:
        return doubt_of(os.environ, _secret_folder(config))
    except SecretUnusable as exc:
        raise Refusal(str(exc), exit_code=exit_code) from exc


def _secret_folder(config: Config) -> Path:
    """Return the folder of the database file or, if that folder has a secret, of the symbolic link to the file."""
    named, linked = config.store.data_dir, linked_folder(config.store.url)
    return named if linked is None or (named / "secret").exists() else linked


def run(main: Callable[[], Awaitable[T]]) -> T:
    """Run the async part of a command. Known errors become a Refusal with one line."""
    import trio

    from gateway.node.listeners import AddressUnusable

    try:
        return trio.run(main, strict_exception_groups=True)
    except (AddressUnusable, StorageError) as exc:
        raise Refusal(str(exc)) from exc
    except BaseExceptionGroup as group:
        _refuse_group(group)


def _refuse_group(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """Unwrap exception groups from nurseries. A single known error is raised without its groups."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        inner = inner.exceptions[0]
    if isinstance(inner, Refusal | KeyboardInterrupt | BrokenPipeError):
        raise inner from None
    from gateway.node.listeners import AddressUnusable

    if isinstance(inner, AddressUnusable | StorageError):
        raise Refusal(str(inner)) from inner
    raise group


def say(text: str, *, end: str = "\n") -> None:
    """Print text on stdout, followed by `end`.

    Raises:
        BrokenPipeError: the reader of stdout is gone.
        Refusal: stdout cannot be written.
    """
    with _stdout_refusals():
        write_all(STDOUT, f"{text}{end}".encode())


async def say_in_background(text: str) -> None:
    """Print a line on stdout without blocking other tasks.

    Cancelling drops the unwritten rest. Raises the same errors as `say`.
    """
    with _stdout_refusals():
        await print_out(f"{text}\n".encode())


@contextmanager
def _stdout_refusals() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as exc:
        raise Refusal(f"stdout cannot be written: {exc.strerror}") from exc


def show(value: Any, *, as_json: bool) -> None:
    """Print a result: JSON on one line, or lines of `name=value`."""
    if as_json:
        say(orjson.dumps(value).decode())
        return
    for entry in value if isinstance(value, list) else [value]:
        say("  ".join(f"{name}={_shown(item)}" for name, item in entry.items()))


def show_pages(pages: Iterable[Sequence[Mapping[str, Any]]], *, as_json: bool) -> None:
    """Print a list in the format of `show`, but page by page, so that the list can have any length."""
    if not as_json:
        for page in pages:
            show(page, as_json=False)
        return
    before = "["
    for page in pages:
        if page:
            say(before + orjson.dumps(page)[1:-1].decode(), end="")
            before = ","
    say("[]" if before == "[" else "]")


def _shown(item: Any) -> str:
    return "-" if item is None else item if isinstance(item, str) else orjson.dumps(item).decode()


def complain(*lines: str) -> None:
    """Print lines on stderr, each on one line. If stderr is not writable, only the exit code shows the error."""
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write("".join(f"sluice: {' '.join(line.splitlines())}\n" for line in lines))
