"""Parses bodies that are not JSON into values: feeds, HTML, XML, captions and text, in any charset.

A call names the form that it accepts: `Call(path, accepts=FEED)`. Parsing a malformed body raises one of `UNREADABLE`.
"""

from __future__ import annotations

from typing import Final

from upstreams.content.captions import read_captions
from upstreams.content.charset import text_of
from upstreams.content.feeds import read_feed
from upstreams.content.markup import HTML_TYPES, html_root, xml_root
from upstreams.model.steps import Form

FEED: Final = Form(
    "application/rss+xml, application/atom+xml, application/feed+json, text/xml;q=0.9, */*;q=0.5",
    read_feed,
)
"""The values of a feed of any kind, as described in `feeds`."""
XML: Final = Form("application/xml, text/xml;q=0.9, */*;q=0.5", xml_root)
"""The root of the document, for `xpath` and `findtext`."""
HTML: Final = Form(HTML_TYPES, html_root)
"""The root of the page; `selection.page` extracts values directly."""
CAPTIONS: Final = Form("text/vtt, text/*;q=0.9, */*;q=0.5", read_captions)
"""The cues of a video's captions, as described in `captions`."""
TEXT: Final = Form("text/plain, text/*;q=0.9, */*;q=0.5", text_of)
"""The body as text, without parsing."""
