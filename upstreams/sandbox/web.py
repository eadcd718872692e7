"""The stand-in for web pages: a small site at example.com, with a robots file, a sitemap, articles and a sign-in wall.

Its paths fail like the subjects of other stand-ins: `missing`, `throttled` and `broken`.
"""

from __future__ import annotations

from html import escape

from upstreams.sandbox.invent import paragraph, person, seeded, sentence
from upstreams.sandbox.site import SandboxReply, SandboxRequest, SandboxRoute, route

HOST = "example.com"
ARTICLES = 24
_HTML = {"content-type": "text/html; charset=utf-8"}
_ROBOTS = f"User-agent: *\nDisallow: /private/\n\nSitemap: https://{HOST}/sitemap.xml\n"
LEAD = (
    "This domain is for use in documentation examples without needing permission. Avoid use in operations, since only "
    "the sandbox of this node answers here."
)


def _page(title: str, inner: str, *, main: bool = True) -> SandboxReply:
    menu = "".join(f'<li><a href="/articles/{number}">Article {number}</a></li>' for number in range(1, 6))
    body = f"<main>{inner}</main>" if main else inner
    html = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        f'<meta name="description" content="{escape(title)}, in the sandbox."></head><body>'
        f"<nav><ul>{menu}</ul></nav>{body}<footer><p>The sandbox of this node.</p></footer></body></html>"
    )
    return SandboxReply(html, headers=_HTML)


def _front(_request: SandboxRequest) -> SandboxReply:
    words = f'<h1>Example Domain</h1><p>{LEAD}</p><p><a href="https://www.iana.org/domains/example">More</a></p>'
    return _page("Example Domain", words)


def _article(request: SandboxRequest) -> SandboxReply:
    name = request.found["name"]
    for word, status in (("missing", 404), ("throttled", 429), ("broken", 500)):
        if word in name:
            return SandboxReply(f"<html><body><h1>{status}</h1></body></html>", status, _HTML)
    rng = seeded("web", name)
    title = sentence(rng).rstrip(".")
    text = "".join(f"<p>{escape(paragraph(rng))}</p>" for _ in range(4))
    by = f'<p class="byline">By {escape(person(rng))}</p>'
    return _page(title, f"<article><h1>{escape(title)}</h1>{by}{text}</article>")


def _sign_in(_request: SandboxRequest) -> SandboxReply:
    form = '<form action="/sign-in" method="post"><input name="user"><input type="password" name="word"></form>'
    return _page("Sign in", f"<h1>Sign in to read on</h1>{form}")


def _moved(request: SandboxRequest) -> SandboxReply:
    return SandboxReply("", 301, {"location": f"/articles/{request.found['name']}"})


_BY_SCRIPT = """<main id="main"></main><script>
fetch("/scripts/data.json").then(answer => answer.json()).then(data => {
  document.getElementById("main").innerHTML = `<h1>${data.title}</h1><p>${data.text}</p>`;
});
</script>"""
_FORM = """<h1>Who are you?</h1><form action="/scripts/hello"><label>Name <input id="name" name="name"></label>
<button id="send">Send</button></form>"""
_INWARD = """<h1>A page that looks inward</h1><p id="said">Nothing came back.</p><script>
const inside = ["http://127.0.0.1:8081/metrics", "http://169.254.169.254/latest/", "http://[::1]/", "http://2130706433/"];
for (const url of inside) fetch(url, {mode: "no-cors"}).then(() => {
  document.getElementById("said").textContent = `${url} was reached.`;
}, () => 0);
</script>"""


def _by_script(_request: SandboxRequest) -> SandboxReply:
    return _page("By script", _BY_SCRIPT, main=False)


def _data(_request: SandboxRequest) -> SandboxReply:
    rng = seeded("web", "by script")
    return SandboxReply({"title": sentence(rng).rstrip("."), "text": paragraph(rng, 6)})


def _form(_request: SandboxRequest) -> SandboxReply:
    return _page("A form", _FORM)


def _hello(request: SandboxRequest) -> SandboxReply:
    name = escape(request.query.get("name", "")[:100]) or "nobody"
    return _page("Hello", f"<h1>Hello, {name}</h1><p>{escape(paragraph(seeded('web', 'hello'), 4))}</p>")


def _reaching_inward(_request: SandboxRequest) -> SandboxReply:
    return _page("Inward", _INWARD)


def _sitemap(_request: SandboxRequest) -> SandboxReply:
    places = "".join(
        f"<url><loc>https://{HOST}/articles/{number}</loc><lastmod>2026-05-{number:02d}</lastmod></url>"
        for number in range(1, ARTICLES + 1)
    )
    xml = f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{places}</urlset>'
    return SandboxReply(xml, headers={"content-type": "application/xml"})


def _robots(_request: SandboxRequest) -> SandboxReply:
    return SandboxReply(_ROBOTS)


def _results(request: SandboxRequest) -> SandboxReply:
    """Return a page of Brave's results; the third page is the last."""
    query = request.query.get("q", "")
    if "missing" in query:
        return SandboxReply({"type": "search", "web": {"type": "search", "results": []}})
    if "throttled" in query:
        return SandboxReply({"type": "ErrorResponse", "error": {"code": "RATE_LIMITED", "status": 429}}, 429)
    if "broken" in query:
        return SandboxReply({"type": "ErrorResponse", "error": {"code": "INTERNAL", "status": 500}}, 500)
    size, page = min(request.number("count", 20), 20), request.number("offset", 0)
    numbers = range(page * size + 1, min((page + 1) * size, 2 * ARTICLES) + 1)
    return SandboxReply({"type": "search", "web": {"type": "search", "results": [_result(n) for n in numbers]}})


def _result(number: int) -> dict[str, object]:
    rng = seeded("web", "result", number)
    return {
        "title": sentence(rng).rstrip("."),
        "url": f"https://{HOST}/articles/{number}",
        "description": paragraph(rng, 2),
        "page_age": f"2026-05-{1 + number % 28:02d}T10:00:00",
        "thumbnail": {"src": f"https://{HOST}/pictures/{number}.jpg"},
    }


ROUTES: tuple[SandboxRoute, ...] = (
    route("api.search.brave.com", "/res/v1/web/search", _results),
    route(HOST, "/", _front),
    route(HOST, "/robots.txt", _robots),
    route(HOST, "/sitemap.xml", _sitemap),
    route(HOST, "/articles/{name}", _article),
    route(HOST, "/private/{name}", _article),
    route(HOST, "/moved/{name}", _moved),
    route(HOST, "/members", _sign_in),
    route(HOST, "/scripts/page", _by_script),
    route(HOST, "/scripts/data.json", _data),
    route(HOST, "/scripts/form", _form),
    route(HOST, "/scripts/hello", _hello),
    route(HOST, "/scripts/inward", _reaching_inward),
)
