"""Checks query parameters against an endpoint's declaration.

An error names the parameter and the nearest valid name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from urllib.parse import unquote

from events.instants import unix
from gateway.http.errors import InvalidParam, unknown_name
from upstreams.model.archetypes.shape import Archetype, fields_of
from upstreams.model.endpoint import Endpoint
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Param, Value

Pairs = Iterable[tuple[str, str]]
Settle = Callable[[Mapping[str, Value]], Mapping[str, Value]]

CURSOR = Param("cursor", "`pagination.next_cursor` of the previous page.", "cur_...", length_max=4_096)
MAX_CREDITS = Param(
    "max_credits",
    "Return an error instead of charging more than this.",
    "5",
    type="integer",
    minimum=0,
    maximum=1_000_000,
)
DRY_RUN = Param("dry_run", "Validate and price the call, free and without an upstream request.", "1", type="boolean")
FIELDS = Param(
    "fields", "Comma-separated paths into `data`. Only these are returned.", "items.post.id", length_max=4_096
)
FORMAT = Param("format", "The format of the rows. `Accept` also sets it.", "csv", choices=("json", "csv", "ndjson"))

_WORDS = re.compile(r"\w+")
_FOREIGN_CURSORS = frozenset(
    _WORDS.findall("""
    after aftercursor afterid anchor before beforecursor beforeid bookmark continuation continuationkey
    continuationtoken ctoken cursorid cursormark cursortoken endcursor endingbefore exclusivestartkey firstresult
    iterator lastevaluatedkey lastid lastkey lastseenid lasttoken marker maxcursor maxid maxposition mincursor minid
    next nextcursor nextid nextkey nextmarker nextoffset nextpage nextpagecursor nextpageid nextpagetoken nexttoken
    offset offsetid offsettoken p page pageafter pagebefore pagecursor pageid pageindex pageno pagenum pagenumber
    pageoffset pagestart pagestate pagetoken paginationcursor paginationkey paginationtoken pagingstate pagingtoken
    pg position prev prevcursor previous previouscursor previouspage prevpage prevpagetoken resumetoken
    resumptiontoken scroll scrollid scrolltoken searchafter seek since sinceid skip skiptoken start startafter
    startat startcursor startfrom startindex startingafter startkey startmarker synctoken token until untilid
""")
)
_FOREIGN_LIMITS = frozenset(
    _WORDS.findall("""
    amount batchsize chunksize count fetchsize first hitsperpage itemsperpage last length max maxcount maxitems
    maxrecords maxresults n num numitems numresults pagecount pagelength pagelimit pagesize perpage quantity
    recordsperpage resultcount results resultsperpage rowcount rows rpp size take top
""")
)
"""Names that other APIs use for the page position and the page size, reduced to lower-case letters."""
_SEPARATORS = re.compile(r"[^a-z0-9]")
_NEAR = 0.6
"""How similar (0 to 1) an unknown name must be to a declared name to count as a misspelling of it."""
_INTEGER = re.compile(r"(-?)0*([0-9]+)")
_DIGITS_MAX = 18
"""Maximum number of digits. Every number with this many digits fits into 64 bits."""
_SCHEMES = ("http://", "https://")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_NOTHING: Mapping[str, str] = {}
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def check_text(name: str, value: str, *, is_url: bool = False) -> None:
    """Reject text that is not UTF-8 or was percent-encoded twice (spec 7.3), and NUL, which PostgreSQL cannot store."""
    if "\0" in value:
        raise InvalidParam(name, "contains a NUL character")
    if "\ufffd" in value:
        raise InvalidParam(name, "is not valid UTF-8", reason="invalid_utf8")
    if "%" in value and _encoded_twice(value, is_url=is_url):
        raise InvalidParam(name, "was percent-encoded twice", reason="double_encoded")


def _encoded_twice(value: str, *, is_url: bool) -> bool:
    """Return whether a value was encoded twice. A URL may contain escapes, so only its scheme is checked."""
    if is_url:
        return value[:12].lower().startswith(("http%3a", "https%3a"))
    return _ESCAPE.search(value) is not None and "\ufffd" not in unquote(value)


class Declared:
    """The parameters that a resource accepts. Exactly one of each group in `one_of` must be sent.

    `lacks` has parameters that no node supports, each with the reason. `settle` converts the sent values, or raises
    InvalidArgument.
    """

    def __init__(
        self,
        params: Iterable[Param],
        one_of: Iterable[tuple[str, ...]] = (),
        lacks: Mapping[str, str] = _NOTHING,
        settle: Settle = lambda values: values,
    ) -> None:
        self._settle = settle
        self._one_of = one_of
        self._lacks = lacks
        self.by_name = {param.name: param for param in params}
        self._required = [param for param in self.by_name.values() if param.required]
        self._defaults = {p.name: p.default for p in self.by_name.values() if p.default is not None}

    def read(self, query: Pairs) -> dict[str, Value]:
        """Return the typed values of a query, with defaults. Empty and blank values are treated as absent.

        Raises:
            InvalidParam: 400 for the first problem found.
        """
        sent: dict[str, Value] = {}
        undeclared: list[str] = []
        for name, text in query:
            if not text or text.isspace():
                continue
            param = self.by_name.get(name)
            if param is None:
                undeclared.append(name)
            elif name in sent:
                raise InvalidParam(name, "was sent more than once")
            else:
                # Use the declaration's string as the name, because parsed queries are cached.
                sent[param.name] = _value(param, text)
        if undeclared:
            raise self._undeclared(undeclared)
        self._check_presence(sent)
        try:
            return {**self._defaults, **self._settle(sent)}
        except InvalidArgument as exc:
            raise InvalidParam(exc.param, exc.problem) from exc

    def _check_presence(self, sent: Mapping[str, Value]) -> None:
        """Reject a query without a required parameter, or with none or several of a group."""
        for param in self._required:
            if param.name not in sent:
                raise InvalidParam(param.name, f"is required: {param.description}")
        for group in self._one_of:
            found = [name for name in group if name in sent]
            if len(found) != 1:
                said = "got none" if not found else f"got {' and '.join(found)}"
                raise InvalidParam(group[0], f"or {' or '.join(group[1:])} is required, exactly one of them; {said}")
        if "since" in sent and "until" in sent and _is_after(str(sent["since"]), str(sent["until"])):
            raise InvalidParam("until", "must be after since")

    def _undeclared(self, names: list[str]) -> InvalidParam:
        excess = [name[:100] for name in names]
        lacking = next((name for name in names if name in self._lacks), None)
        if lacking is not None:
            return InvalidParam(
                lacking, self._lacks[lacking], reason="capability_missing", more={"remove_params": excess}
            )
        meant = self._meant(excess[0].lower())
        return unknown_name("parameter", excess[0], self.by_name, meant, others=excess[1:])

    def _meant(self, name: str) -> str | None:
        """Return the declared name that was probably meant; None if no name is similar."""
        plain = _SEPARATORS.sub("", name)
        for foreign, own in ((_FOREIGN_CURSORS, "cursor"), (_FOREIGN_LIMITS, "limit")):
            if plain in foreign:
                return own if own in self.by_name else None
        return next(iter(get_close_matches(name, self.by_name, n=1, cutoff=_NEAR)), None)


@cache
def common_params(archetype: Archetype) -> tuple[Param, ...]:
    """Return the parameters that all endpoints of this kind share."""
    fields = replace(FIELDS, example=",".join(_first_paths(archetype)))
    if archetype.many:
        return CURSOR, MAX_CREDITS, DRY_RUN, fields, FORMAT
    paged = (_cursor_of(archetype),) if archetype.cursor_at else ()
    return (*paged, MAX_CREDITS, DRY_RUN, fields)


def _cursor_of(archetype: Archetype) -> Param:
    return replace(CURSOR, description=f"`{archetype.cursor_at}` of the previous response.")


def _first_paths(archetype: Archetype) -> list[str]:
    """Return the paths to the first record's id and URL, or to its first field if it has neither."""
    own = fields_of(archetype.make)
    record = archetype.key or own[0].name
    inner = own if archetype.key else fields_of(own[0].make) if own[0].make else own[0].members
    names = [field.name for field in inner]
    above = f"items.{record}" if archetype.many else record
    return [f"{above}.{name}" for name in ("id", "url") if name in names] or [".".join((above, *names[:1]))]


def declared_by(endpoint: Endpoint) -> Declared:
    """Return the declared parameters of a data endpoint, for checking queries (spec 4.1, decisions 5)."""
    params = (*endpoint.params, *common_params(endpoint.archetype))
    return Declared(params, endpoint.one_of, endpoint.lacks, endpoint.normalize)


def read_free(query: Pairs, params: tuple[Param, ...]) -> dict[str, Value]:
    """Return the typed values of a query to a resource that is free.

    Raises:
        InvalidParam: 400 for the first problem found.
    """
    return Declared(params).read(query)


def _value(param: Param, text: str) -> Value:
    is_url = param.type == "url" or (bool(param.forms) and text.lstrip()[:8].lower().startswith(_SCHEMES))
    check_text(param.name, text, is_url=is_url)
    if param.type == "integer":
        return _integer(param, text)
    if param.type == "boolean":
        if (boolean := _BOOLEANS.get(text.lower())) is None:
            raise InvalidParam(param.name, "must be true or false")
        return boolean
    if len(text) > param.length_max:
        raise InvalidParam(param.name, f"is longer than {param.length_max} characters")
    if param.choices and text not in param.choices:
        raise _no_choice(param, text)
    try:
        return param.canonical(text)
    except InvalidArgument as exc:
        raise InvalidParam(param.name, exc.problem) from exc


def _integer(param: Param, text: str) -> int:
    """Parse a whole number. A `limit` above the upstream's maximum becomes that maximum (spec 4.3, rule 7)."""
    if (digits := _INTEGER.fullmatch(text)) is None:
        raise InvalidParam(param.name, f"must be a whole number{_bounds(param)}, such as {param.example}")
    number = int(digits[1] + digits[2][: _DIGITS_MAX + 1])  # A number with one more digit exceeds every bound.
    if param.minimum is not None and number < param.minimum:
        raise InvalidParam(param.name, f"must be at least {param.minimum}{_bound_text('and at most', param.maximum)}")
    if param.maximum is not None and number > param.maximum:
        if param.name == "limit":
            return param.maximum
        raise InvalidParam(param.name, f"must be at most {param.maximum}{_bound_text('and at least', param.minimum)}")
    if len(digits[2]) > _DIGITS_MAX:
        raise InvalidParam(param.name, f"has more than {_DIGITS_MAX} digits")
    return number


def _bounds(param: Param) -> str:
    if param.minimum is not None and param.maximum is not None:
        return f" from {param.minimum} to {param.maximum}"
    return _bound_text("of at least", param.minimum) or _bound_text("of at most", param.maximum)


def _bound_text(words: str, bound: int | None) -> str:
    return "" if bound is None else f" {words} {bound}"


def _is_after(since: str, until: str) -> bool:
    """Return whether a time span ends before it starts. Invalid times are rejected later, when they are parsed."""
    try:
        return unix(since) > unix(until)
    except (ValueError, OverflowError):
        return False


def _no_choice(param: Param, text: str) -> InvalidParam:
    near = get_close_matches(text.lower(), param.choices, n=1, cutoff=0.5)
    problem = f"must be one of {', '.join(param.choices)}"
    return InvalidParam(param.name, problem, meant=near[0] if near else None)
