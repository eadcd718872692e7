"""The `sluice` command (operator contract). Errors are one line on stderr: exit 2 for wrong use, 1 for a refusal."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
from click.exceptions import NoSuchCommand

from gateway.cli.run import Refusal, complain
from gateway.observability.standard_streams import STDOUT, discard, open_missing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PLUGINS = "sluice.commands"
_COMMANDS = {
    "account": ("operate", "account", "Make, list and change accounts."),
    "admin": ("operate", "admin", "Reach the admin address with other tools."),
    "check": ("check", "check", "Validate the config and the master secret."),
    "credits": ("operate", "credits_group", "Give credits."),
    "demo": ("demo", "demo", "Try Sluice."),
    "discover": ("discover.command", "discover", "Search many keywords everywhere, and read what was found."),
    "events": ("feed.command", "events", "Follow an account's events."),
    "key": ("operate", "key", "Make, list, reveal, change and revoke API keys."),
    "ledger": ("ledger", "ledger", "Prove the ledger, archive its old days, and read it back."),
    "monitor": ("monitor", "monitor", "Run a Monitor's slot."),
    "openapi": ("platforms", "openapi", "Print the OpenAPI document."),
    "pack": ("owners.pack", "pack", "Grant packs of credits, and list them and their purchases."),
    "platforms": ("platforms", "platforms", "List, try, isolate and reset platforms."),
    "reload": ("operate", "reload", "Make the running node read its config again."),
    "sandbox": ("serve", "sandbox", "Run the upstream sandbox alone."),
    "serve": ("serve", "serve", "Run a node."),
    "store": ("store", "store", "Look at the store."),
    "user": ("owners.user", "user", "Invite, list, reset, sign out and delete users."),
    "webhook": ("webhook", "webhook", "Receive and verify webhooks."),
}
"""The module and the name of each command, and the first sentence of its help: a command is loaded by its first use."""


class Commands(click.Group):
    """The commands of this package, and those that other packages add as entry points of `sluice.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """The names of all commands, sorted."""
        return sorted({*_COMMANDS, *_added()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as above
        """The command of this name."""
        if cmd_name in _COMMANDS:
            module, name, _ = _COMMANDS[cmd_name]
            gc.disable()  # or it walks again and again over what is loaded so far: a tenth of a start's CPU
            command: click.Command = getattr(import_module(f"gateway.cli.{module}"), name)
            gc.freeze()  # or the process walks over all of it when it ends: a fifth of a short command's CPU
            gc.enable()
            return command
        added = _added().get(cmd_name)
        return None if added is None else added.load()

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. Raises click.UsageError, which names those that are near."""
        try:
            return super().resolve_command(ctx, args)
        except NoSuchCommand as exc:
            raise NoSuchCommand(exc.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, of which none is loaded for that."""
        rows = [(name, _COMMANDS[name][2] if name in _COMMANDS else "") for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, text or _added_help(self, ctx, name)) for name, text in rows])


def _added() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # 30 ms, which a command of our own does without

    return {point.name: point for point in entry_points(group=_PLUGINS)}


def _added_help(group: Commands, ctx: click.Context, name: str) -> str:
    command = group.get_command(ctx, name)
    return "" if command is None else command.get_short_help_str(limit=120)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sluice")
def cli() -> None:
    """Sluice: many public platforms as one API, billed in credits."""


def main() -> None:
    """The command's entry point."""
    open_missing()
    # httpx's own command, which nobody here runs: it loads as much as a sixteenth of what the start of a node takes.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # as Python marks what is not to be found
    try:
        cli.main(prog_name="sluice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as exc:
        complain(" ".join(exc.format_message().split()))
        sys.exit(2)
    except Refusal as exc:
        complain(*exc.lines)
        sys.exit(exc.exit_code)
    except BrokenPipeError:
        # Whoever read the output has seen enough; what is left in the buffer must not fail once more at exit.
        discard(STDOUT)
        sys.exit(1)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
