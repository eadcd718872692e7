"""The templates of the dashboard's pages, which share those of the documentation."""

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
"""Currencies whose smallest unit is the whole one, as Stripe takes them."""


def load_templates() -> Environment:
    """The templates: all text in them is escaped, and a name that nobody set is an error."""
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
    """An amount of a currency's smallest unit as a price."""
    return f"{amount:,} {currency.upper()}" if currency in WITHOUT_CENTS else f"{amount / 100:,.2f} {currency.upper()}"


def _clock(at: float) -> str:
    """An instant in words, for readers whose browser puts none into their zone."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
