"""Loads the templates of the dashboard's pages. Some templates are shared with the documentation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, select_autoescape

from events.instants import iso

_HERE: Final = Path(__file__).parent
_FOLDERS: Final = (_HERE / "templates", _HERE.parent / "docs" / "pages" / "templates")

WITHOUT_CENTS: Final = frozenset(
    ("bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "vnd", "vuv", "xaf", "xof", "xpf")
)
"""Currencies without a smaller unit, as Stripe defines them."""


def load_templates() -> Environment:
    """Load the templates. All text in them is escaped, and an undefined name is an error."""
    templates = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder) for folder in _FOLDERS]),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"number": _number, "price": price, "ago": iso, "clock": _clock}
    return templates


def _number(value: float) -> str:
    return f"{value:,}"


def price(amount: int, currency: str) -> str:
    """Format an amount in a currency's smallest unit as a price."""
    return f"{amount:,} {currency.upper()}" if currency in WITHOUT_CENTS else f"{amount / 100:,.2f} {currency.upper()}"


def _clock(at: float) -> str:
    """Format a timestamp as text, for browsers that do not run the script that converts it to the local time zone."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
