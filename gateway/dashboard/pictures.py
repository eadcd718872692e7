"""Pictures of numbers as SVG that stands in a page: its colours are the style sheet's, and each bar says its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

_WIDTH: Final = 720
_HEIGHT: Final = 180
_TOP: Final = 12
_BOTTOM: Final = 152
_GAP: Final = 0.25
_STEPS: Final = (1, 2, 5, 10)


def bars_svg(title: str, bars: Sequence[tuple[str, int]]) -> Markup:
    """A bar for each number, which is 0 or more, with the first and the last label below."""
    top = _round_top(max((value for _, value in bars), default=0))
    width = _WIDTH / max(len(bars), 1)
    drawn = Markup("").join(
        _bar(place * width, width, label, value=value, top=top) for place, (label, value) in enumerate(bars)
    )
    first, last = (bars[0][0], bars[-1][0]) if bars else ("", "")
    return Markup(
        '<svg class="bars" viewBox="0 0 {w} {h}" role="img" aria-label="{title}, at most {top}">'
        '<line class="axis" x1="0" x2="{w}" y1="{bottom}" y2="{bottom}"/>'
        '<line class="axis" x1="0" x2="{w}" y1="{t}" y2="{t}"/>'
        '<text x="0" y="{t}" dy="-3">{top}</text>{drawn}<text x="0" y="{below}">{first}</text>'
        '<text x="{w}" y="{below}" text-anchor="end">{last}</text></svg>'
    ).format(
        w=_WIDTH, h=_HEIGHT, title=title, top=f"{top:,}", bottom=_BOTTOM, t=_TOP, drawn=drawn, below=_BOTTOM + 20,
        first=first, last=last,
    )  # fmt: skip


def _bar(x: float, width: float, label: str, *, value: int, top: int) -> Markup:
    height = (_BOTTOM - _TOP) * value / top
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {:,}</title></rect>').format(
        x + width * _GAP / 2, _BOTTOM - height, width * (1 - _GAP), height, label, value
    )


def _round_top(most: int) -> int:
    """The smallest of 1, 2 and 5 by a power of ten that no number is above."""
    power = 1
    while power * 10 <= most:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= most)
