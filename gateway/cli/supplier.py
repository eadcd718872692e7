"""`sluice supplier`: the states, costs and alerts of the suppliers that the operator pays for platforms' data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from gateway.cli.dispatch import operate, operate_on_node
from gateway.cli.run import config_option, json_option, say, show

_GROUPS = ("endpoint", "platform", "day")


@click.group()
def supplier() -> None:
    """Show what suppliers cost, and call them again after a problem."""


@supplier.command("list")
@config_option
@json_option
def supplier_list(config_path: str | None, as_json: bool) -> None:
    """List the suppliers of the running node with their states, balances and budgets."""
    show(operate_on_node(config_path, "supplier.list"), as_json=as_json)


@supplier.command("reset")
@config_option
@click.argument("name")
@json_option
def supplier_reset(config_path: str | None, name: str, as_json: bool) -> None:
    """Call a supplier again immediately, for example after adding credits."""
    show(operate_on_node(config_path, "supplier.reset", supplier=name), as_json=as_json)


@supplier.command("alerts")
@config_option
@json_option
def supplier_alerts(config_path: str | None, as_json: bool) -> None:
    """List the latest alerts, the newest first."""
    show(operate(config_path, "supplier.alerts"), as_json=as_json)


@supplier.command("costs")
@config_option
@click.option(
    "--days", type=click.IntRange(1, 400), default=30, show_default=True, help="Number of days (UTC), today included."
)
@click.option("--by", type=click.Choice(_GROUPS), default="endpoint", show_default=True, help="How to group the costs.")
@json_option
def supplier_costs(config_path: str | None, days: int, by: str, as_json: bool) -> None:
    """Print what calls cost at suppliers, and what customers paid for the same endpoints.

    `paid` contains all calls of these endpoints, including those that a cache or another source answered.
    """
    found = operate(config_path, "supplier.costs", days=days, by=by)
    if as_json:
        show(found, as_json=True)
    elif found:
        say("\n".join(_lines(found, by)))
    else:
        say(f"no calls of suppliers in the last {days} days")


def _lines(found: Sequence[Mapping[str, Any]], by: str) -> Iterator[str]:
    counts = f"{'calls':>9}{'failed':>8}{'units':>9}{'cost':>14}{'paid (credits)':>16}{'units/call':>12}"
    yield f"{by:32}{'supplier':16}{counts}"
    for one in found:
        cost = "-" if one["cost"] is None else f"{one['cost']:,.2f} {one['currency'].upper()}"
        yield (
            f"{one['group']:32}{one['supplier']:16}{one['calls']:>9,}{one['failed']:>8,}{one['units']:>9,}{cost:>14}"
            f"{one['paid_credits']:>16,}{one['units_per_call']:>12.2f}"
        )
