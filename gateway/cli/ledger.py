"""`sluice ledger`: verify, archive and export the ledger."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import click
import orjson

from gateway.cli.dispatch import operate, operate_watched
from gateway.cli.run import Refusal, config_option, json_option, say, show

_EPOCH = date(1970, 1, 1)


@click.group()
def ledger() -> None:
    """Verify, archive and export the ledger."""


@ledger.command("verify")
@config_option
@click.option("--archives", is_flag=True, help="Also verify the archive: every file, and the balances stored for it.")
@json_option
def ledger_verify(config_path: str | None, archives: bool, as_json: bool) -> None:
    """Verify the ledger's invariants. Exit 1 and print every violation."""
    result = operate_watched(config_path, "ledger.verify", "ledger.progress", _say_proved)
    if archives:
        result["violations"] += _archive_violations(config_path)
        result["ok"] = not result["violations"]
    if as_json:
        show(result, as_json=True)
    if not result["ok"]:
        raise Refusal(*(f"{v['rule']}: {v['subject']}: {v['detail']}" for v in result["violations"]))
    if not as_json:
        say("the ledger and its archive are consistent" if archives else "the ledger is consistent")


@ledger.command("archive")
@config_option
@json_option
def ledger_archive(config_path: str | None, as_json: bool) -> None:
    """Archive the days that are old enough. A node does this automatically every hour."""
    files = rows = 0
    is_done = False
    while not is_done:
        archived = operate(config_path, "ledger.archive")
        files, rows, is_done = files + archived["files"], rows + archived["rows"], archived["is_done"]
    show({"files": files, "rows": rows}, as_json=as_json)


def _day(_context: click.Context, _option: click.Parameter, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise click.BadParameter(f"{text} is not a day such as 2026-01-31") from exc


@ledger.command("export")
@config_option
@click.option("--from", "first", callback=_day, required=True, help="First day (UTC), such as 2026-01-31.")
@click.option("--to", "last", callback=_day, required=True, help="Last day (UTC), inclusive.")
def ledger_export(config_path: str | None, first: date, last: date) -> None:
    """Print the journal's rows for a range of days as JSON lines, including archived rows."""
    if last < first:
        raise click.BadParameter("must not be before --from", param_hint="--to")
    days: Any = {"first_day": _day_number(first), "last_day": _day_number(last)}
    after: str | None = ""
    while after is not None:
        page = operate(config_path, "ledger.export", after=after, **days)
        for row in page["rows"]:
            say(orjson.dumps(row).decode())
        after = page["next"]


def _say_proved(rows: int) -> None:
    click.echo(f"{rows:,} rows verified", err=True)


def _archive_violations(config_path: str | None) -> list[Any]:
    found: list[Any] = []
    after: int | None = None
    while True:
        proved = operate_watched(config_path, "archive.verify", "ledger.progress", _say_proved, after=after)
        found += proved["violations"]
        after = proved["next"]
        if after is None:
            return found


def _day_number(day: date) -> int:
    return (day - _EPOCH) // timedelta(days=1)
