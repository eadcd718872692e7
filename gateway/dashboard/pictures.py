"""Inline SVG: bar charts in the style sheet's colors, and QR codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_GAP: Final = 0.25
_STEPS: Final = (1, 2, 5, 10)


def bars_svg(title: str, bars: Sequence[tuple[str, int]]) -> Markup:
    """Draw a bar for each number (0 or more), with the maximum above and the first and last labels below.

    The picture is scaled to the width of the page. The labels are outside it, so that they have the same size on every
    screen.
    """
    top = _axis_maximum(max((value for _, value in bars), default=0))
    width = _WIDTH / max(len(bars), 1)
    drawn = Markup("").join(
        _bar(place * width, width, label, value=value, top=top) for place, (label, value) in enumerate(bars)
    )
    first, last = (bars[0][0], bars[-1][0]) if bars else ("", "")
    return Markup(
        '<figure class="bars"><span aria-hidden="true">{top}</span>'
        '<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{title}, at most {top}">'
        "{drawn}</svg><figcaption><span>{first}</span><span>{last}</span></figcaption></figure>"
    ).format(top=f"{top:,}", width=_WIDTH, height=_HEIGHT, title=title, drawn=drawn, first=first, last=last)


def _bar(x: float, width: float, label: str, *, value: int, top: int) -> Markup:
    height = _HEIGHT * value / top
    return Markup('<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}: {:,}</title></rect>').format(
        x + width * _GAP / 2, _HEIGHT - height, width * (1 - _GAP), height, label, value
    )


def _axis_maximum(most: int) -> int:
    """Return the smallest of 1, 2 and 5 times a power of ten that is at least the largest number."""
    power = 1
    while power * 10 <= most:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= most)


def qr_svg(title: str, text: str) -> Markup:
    """Return a QR code of a text: black on white with a margin, in dark mode too, so that cameras can read it."""
    import segno  # noqa: PLC0415 - only one page needs it

    code = segno.make(text, micro=False, error="m")
    drawn = code.svg_inline(border=4, light="#fff", omitsize=True, svgclass=None, lineclass=None)
    return Markup('<figure class="qr" role="img" aria-label="{}">{}</figure>').format(title, Markup(drawn))  # noqa: S704
