"""JSON as HTML, with objects and lists that can be collapsed without a script. Long values are truncated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
from markupsafe import Markup

PARTS_MAX: Final = 700
TEXT_MAX: Final = 600
DEPTH_OPEN: Final = 3
DEPTH_MAX: Final = 40


class Folded:
    """Renders one value. `is_cut` is True if something was omitted."""

    def __init__(self) -> None:
        self._left = PARTS_MAX
        self.is_cut = False

    def html(self, body: bytes) -> Markup:
        """Return a response's body as HTML. A body that is not JSON is shown as text."""
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:  # not JSON, or nested too deeply
            text = body.decode("utf-8", "replace")
            self.is_cut = len(text) > TEXT_MAX * 20
            return Markup('<pre tabindex="0"><code>{}</code></pre>').format(text[: TEXT_MAX * 20])
        return Markup('<ul class="json">{}</ul>').format(self._part("", value, 0))

    def _part(self, name: str, value: Any, depth: int) -> Markup:
        """Render one name with its value."""
        self._left -= 1
        head = Markup('<span class="a">{}</span>: ').format(name) if name else Markup("")
        if isinstance(value, dict | list) and value and depth < DEPTH_MAX:
            return self._folder(head, value, depth)
        return Markup("<li>{}{}</li>").format(head, self._leaf(value))

    def _folder(self, head: Markup, value: dict[str, Any] | list[Any], depth: int) -> Markup:
        pairs = value.items() if isinstance(value, dict) else ((str(place), one) for place, one in enumerate(value))
        size = f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
        inner = Markup("").join(self._inner(iter(pairs), depth))
        is_open = Markup(" open") if depth < DEPTH_OPEN else ""
        return Markup('<li><details{}><summary>{}<span class="c">{}</span></summary><ul>{}</ul></details></li>').format(
            is_open, head, size, inner
        )

    def _inner(self, pairs: Iterator[tuple[str, Any]], depth: int) -> Iterator[Markup]:
        for name, one in pairs:
            if self._left <= 0:
                self.is_cut = True
                yield Markup('<li class="c">...</li>')
                return
            yield self._part(name, one, depth + 1)

    def _leaf(self, value: Any) -> Markup:
        if isinstance(value, dict | list) and value:
            self.is_cut, value = True, "..."
        text = orjson.dumps(value).decode() if not isinstance(value, str) else value
        if len(text) > TEXT_MAX:
            self.is_cut, text = True, f"{text[:TEXT_MAX]}..."
        if isinstance(value, str):
            return Markup('<span class="s">"{}"</span>').format(text)
        kind = "n" if isinstance(value, int | float) and not isinstance(value, bool) else "k"
        return Markup('<span class="{}">{}</span>').format(kind, text)
