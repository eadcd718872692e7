"""Pictures as SVG that stands in a page: bars of numbers in the style sheet's colours, and a code for a camera."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

_WIDTH: Final = 1_000
_HEIGHT: Final = 100
_GAP: Final = 0.25
_STEPS: Final = (1, 2, 5, 10)


def bars_svg(title: str, bars: Sequence[tuple[str, int]]) -> Markup:
    """A bar for each number, which is 0 or more; above them the most, below them the first and the last label.

    The words stand beside the picture, which is as wide as the page: they have one size on every screen.
    """
    top = _round_top(max((value for _, value in bars), default=0))
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


def _round_top(most: int) -> int:
    """The smallest of 1, 2 and 5 by a power of ten that no number is above."""
    power = 1
    while power * 10 <= most:
        power *= 10
    return next(step * power for step in _STEPS if step * power >= most)


def qr_svg(title: str, text: str) -> Markup:
    """A QR code of a text: black on white with its margin, in the dark too, so that cameras read it."""
    import segno  # noqa: PLC0415 - one page of all needs it

    code = segno.make(text, micro=False, error="m")
    drawn = code.svg_inline(border=4, light="#fff", omitsize=True, svgclass=None, lineclass=None)
    return Markup('<figure class="qr" role="img" aria-label="{}">{}</figure>').format(title, Markup(drawn))  # noqa: S704
