"""The `sluice` command (operator contract). Errors go to stderr. Wrong usage exits with 2, a failure with 1."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.exceptions import NoSuchCommand

from gateway.cli.run import Refusal, complain
from gateway.observability.standard_streams import STDOUT, discard, open_missing
from upstreams.model.errors import DeclarationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PLUGINS = "sluice.commands"
_COMMANDS = {
    "account": ("operate", "account", "Create, list and change accounts."),
    "admin": ("operate", "admin", "Get access to the admin address for other tools."),
    "check": ("check", "check", "Validate the config, the secret and the platforms."),
    "credits": ("operate", "credits_group", "Grant credits."),
    "demo": ("demo", "demo", "Try Sluice."),
    "discover": ("discover.command", "discover", "Search many keywords on all platforms, and read the results."),
    "events": ("feed.command", "events", "Follow an account's events."),
    "key": ("operate", "key", "Create, list, reveal, change and revoke API keys."),
    "ledger": ("ledger", "ledger", "Verify, archive and export the ledger."),
    "monitor": ("monitor", "monitor", "Run a Monitor's slot."),
    "openapi": ("platforms", "openapi", "Print the OpenAPI document."),
    "pack": ("owners.pack", "pack", "Grant packs of credits, and list them and their purchases."),
    "platforms": ("platforms", "platforms", "List, try, isolate and reset platforms."),
    "reload": ("operate", "reload", "Reload the config of the running node."),
    "sandbox": ("serve", "sandbox", "Run the upstream sandbox alone."),
    "serve": ("serve", "serve", "Run a node."),
    "store": ("store", "store", "Inspect the store."),
    "supplier": ("supplier", "supplier", "Show what suppliers cost, and call them again after a problem."),
    "user": ("owners.user", "user", "Invite, list, reset, sign out and delete users."),
    "webhook": ("webhook", "webhook", "Receive and verify webhooks."),
}
"""Module, name and first help sentence of each command. The module is imported only when the command is used."""


class Commands(click.Group):
    """The commands of this package, and commands that other packages add as entry points in `sluice.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands, sorted."""
        return sorted({*_COMMANDS, *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - see above
        """Return the command with this name."""
        if cmd_name in _COMMANDS:
            module, name, _ = _COMMANDS[cmd_name]
            gc.disable()  # Garbage collection during imports takes a tenth of the CPU time of a start.
            command: click.Command = getattr(import_module(f"gateway.cli.{module}"), name)
            gc.freeze()  # The collection at exit skips frozen objects; it took a fifth of a short command's CPU time.
            gc.enable()
            return command
        added = _added().get(cmd_name)
        return None if added is None else added.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command in the arguments. Raises click.UsageError, with similar names as suggestions."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as exc:
            raise NoSuchCommand(exc.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        rows = [(name, _COMMANDS[name][2] if name in _COMMANDS else "") for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, text or _added_help(self, ctx, name)) for name, text in rows])


def _added() -> dict[str, EntryPoint]:
    # Imported here, because the import takes 30 ms and the built-in commands do not need it.
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=_PLUGINS)}


def _added_help(group: Commands, ctx: click.Context, name: str) -> str:
    command = group.get_command(ctx, name)
    return "" if command is None else command.get_short_help_str(limit=120)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sluice")
def cli() -> None:
    """Sluice: one API over many public platforms, billed in credits."""


def main() -> None:
    """Run the `sluice` command."""
    open_missing()
    # Skip httpx's own command line, because importing it takes a sixteenth of a node's start time.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # None makes the import fail
    try:
        cli.main(prog_name="sluice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as exc:
        complain(" ".join(exc.format_message().split()))
        sys.exit(2)
    except DeclarationError as exc:
        complain(*str(exc).splitlines())
        sys.exit(2)
    except Refusal as exc:
        complain(*exc.lines)
        sys.exit(exc.exit_code)
    except BrokenPipeError:
        # The reader has closed the pipe. Discard the buffer, so that flushing it at exit does not fail again.
        discard(STDOUT)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
