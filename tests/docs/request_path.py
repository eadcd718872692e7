"""The picture of a request's path, drawn as SVG from a table of steps, for light and dark mode."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 1188, 372
_LEFT, _TOP, _BOX, _TALL, _GAP = 22, 84, 150, 126, 16


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its title, two lines of text, its name in the code, and how a request may end there."""

    title: str
    words: tuple[str, str]
    name: str
    end: tuple[str, str] | None = None
    is_refusal: bool = True


STEPS = (
    Step("Read", ("one at a time, with", "time and size limits"), "gateway.server.connection.Connection"),
    Step(
        "Admit",
        ("the key, its rate,", "its open requests"),
        "gateway.api.admission.Admission",
        ("401, 429", "free, not counted"),
    ),
    Step(
        "Look up",
        ("the cache, and calls", "that are under way"),
        "upstreams.cache.response_cache.Cache",
        ("hit", "0 credits"),
        is_refusal=False,
    ),
    Step(
        "Charge",
        ("committed to disk", "before the call"),
        "billing.charges.charges.Charges.take",
        ("402", "too few credits"),
    ),
    Step(
        "Call",
        ("breaker, governor,", "retries, next source"),
        "upstreams.fetching.source.Source.ask",
        ("502", "all is refunded"),
    ),
    Step("Shape", ("one envelope for", "every platform"), "gateway.calls.shaping.shape"),
    Step("Close", ("settled after the", "reply, or refunded"), "billing.charges.charges.Charges.settle_nowait"),
)
_STYLE = """
text { font: 13px Inter, system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #45545f }
.mono { font: 10.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
.title { font-size: 17px; font-weight: 650; fill: #0f1920 }
.card { fill: #fff; stroke: #e3e8eb }
.box { fill: #f6f8f9; stroke: #d5dde1 }
.line { fill: none; stroke: #0b6b74; stroke-width: 2 }
.tip { fill: #0b6b74 }
.call { font-size: 13px; fill: #08616a }
.stop { fill: #a3261d; font-weight: 650 } .free { fill: #1c6b3c; font-weight: 650 }
.off { fill: none; stroke: #98a6b1; stroke-width: 1.5; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) {
  text { fill: #a9b6c0 }
  .title { fill: #eef3f6 }
  .card { fill: #0f1418; stroke: #27313a }
  .box { fill: #161d23; stroke: #2d3943 }
  .line { stroke: #5cc3ca }
  .tip { fill: #5cc3ca }
  .call { fill: #6fd0d6 }
  .stop { fill: #f59d95 } .free { fill: #7fd7a1 }
}
"""


def shown(step: Step) -> str:
    """Return the name of a step without its module: a class, a function, or a class with a method."""
    parts = step.name.split(".")
    first = next((place for place, part in enumerate(parts) if part[0].isupper()), len(parts) - 1)
    return ".".join(parts[first:])


def request_path() -> str:
    """Return the picture."""
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t">',
            '<title id="t">The path of a request through a node, from reading it to closing its charge</title>',
            f"<style>{_STYLE}</style>",
            f'<rect class="card" x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="14"/>',
            *_way_in(),
            *(line for place, step in enumerate(STEPS) for line in _step(place, step)),
            *_way_out(),
            "</svg>\n",
        )
    )


def _at(place: int) -> int:
    return _LEFT + place * (_BOX + _GAP)


def _text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="{kind}">{escape(words, quote=False)}</text>'


def _tip(x: float, y: float, turn: int) -> str:
    return f'<path class="tip" d="M0 0l-8-5v10z" transform="translate({x:g} {y:g}) rotate({turn})"/>'


def _way_in() -> Iterator[str]:
    x = _at(0) + 24
    yield _text(x + 16, 44, "GET /v1/github/profile?handle=octocat", "mono call")
    yield f'<path class="line" d="M{x} 30V{_TOP - 8}"/>'
    yield _tip(x, _TOP - 1, 90)


def _step(place: int, step: Step) -> Iterator[str]:
    x, middle = _at(place), _at(place) + _BOX / 2
    yield f'<rect class="box" x="{x}" y="{_TOP}" width="{_BOX}" height="{_TALL}" rx="10"/>'
    yield _text(x + 10, _TOP + 32, step.title, "title")
    yield from (_text(x + 10, _TOP + 58 + 18 * line, words) for line, words in enumerate(step.words))
    yield _text(x + 10, _TOP + _TALL - 16, shown(step), "mono")
    if place:
        yield f'<path class="line" d="M{x - _GAP} {_TOP + 27}h{_GAP - 6}"/>'
        yield _tip(x, _TOP + 27, 0)
    if step.end is not None:
        yield f'<path class="off" d="M{middle:g} {_TOP + _TALL}v28"/>'
        yield _text(middle, _TOP + _TALL + 46, step.end[0], "stop" if step.is_refusal else "free", "middle")
        yield _text(middle, _TOP + _TALL + 64, step.end[1], "", "middle")


def _way_out() -> Iterator[str]:
    below, left = HEIGHT - 44, _at(0) + 24
    out = next(_at(place) + _BOX / 2 for place, step in enumerate(STEPS) if step.title == "Shape")
    yield f'<path class="line" d="M{out:g} {_TOP + _TALL}V{below - 10}q0 10-10 10H{left + 8}"/>'
    yield _tip(left + 1, below, 180)
    yield _text(left + 16, below - 12, '200 {"success":true,"data":{...},"credits_used":1,"cached":false}', "mono call")
