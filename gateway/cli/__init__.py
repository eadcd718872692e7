"""The `sluice` command (operator contract). Errors are one line on stderr: exit 2 for wrong use, 1 for a refusal."""

from __future__ import annotations

import gc
import sys
from importlib.metadata import entry_points

import click

from gateway.cli.demo import demo
from gateway.cli.feed.command import events
from gateway.cli.monitor import monitor
from gateway.cli.operate import account, admin, credits_group, key, ledger, reload
from gateway.cli.platforms import platforms
from gateway.cli.run import Refusal, complain
from gateway.cli.serve import check, sandbox, serve
from gateway.cli.store import store
from gateway.cli.webhook import webhook
from gateway.observability.standard_streams import STDOUT, discard, open_missing

_PLUGINS = "sluice.commands"


class Commands(click.Group):
    """The commands of this package, and those that other packages add as entry points of `sluice.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *entry_points(group=_PLUGINS).names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name; one of another package is loaded by its first use."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        added = next(iter(entry_points(group=_PLUGINS, name=cmd_name)), None)
        return None if added is None else added.load()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sluice")
def cli() -> None:
    """Sluice: many public platforms as one API, billed in credits."""


_COMMANDS = (
    account,
    admin,
    check,
    credits_group,
    demo,
    events,
    key,
    ledger,
    monitor,
    platforms,
    reload,
    sandbox,
    serve,
    store,
    webhook,
)
for command in _COMMANDS:
    cli.add_command(command)


def main() -> None:
    """The command's entry point.

    A process that ends walks over all that it has loaded but what is frozen: a fifth of a short command's CPU.
    """
    gc.freeze()
    open_missing()
    try:
        cli.main(prog_name="sluice", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message(), err=True)
        sys.exit(2)
    except click.ClickException as exc:
        complain(exc.format_message())
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
