"""Calls declared as values, and the endpoints that need only such calls.

`single` and `listing` return endpoints whose reads are generated from a call and a field map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, Unpack

from upstreams.model import fields
from upstreams.model.archetypes import Archetype, Record
from upstreams.model.checking import declaring
from upstreams.model.endpoint import Collect, Endpoint, Fallback, Options, Read
from upstreams.model.errors import PARTNER, DeclarationError, NotFound
from upstreams.model.fields.maps import RecordMap, Rows, names_in
from upstreams.model.paging.shape import MakeRecord, Pages
from upstreams.model.params import Args, Param, Value
from upstreams.model.steps import Accepts, Call, Form, Single, Steps, segment

__all__ = [
    "Get",
    "Made",
    "Member",
    "Pages",
    "Post",
    "PostForm",
    "Secret",
    "fallback_to",
    "listing",
    "listing_by",
    "made",
    "single",
]
_PLACE = re.compile(r"\{(\+?)(\w+)\}")
_NOTHING: Mapping[str, Any] = {}

_Make = Callable[[Args, Accepts, Mapping[str, Any], Mapping[str, Any]], Call]
"""Builds a call from the arguments, the body format, the page's query members, and additional members."""


class Made(NamedTuple):
    """A call member that a function computes from parameter values.

    A parameter that the request does not contain is None.
    """

    function: Callable[..., Value | None]
    params: tuple[Param, ...]


class Secret(NamedTuple):
    """A call member whose value is a credential. It is omitted if the operator has not configured the credential."""

    name: str


Member = Param | Made | Secret | Value | tuple[str, ...] | None


def made(function: Callable[..., Value | None], *params: Param) -> Made:
    """Return a member that `function` computes from the values of these parameters. It may raise InvalidArgument."""
    return Made(function, params)


class Get:
    """A GET request as a value. `at` builds the call for the arguments of a request."""

    method: Literal["GET", "POST"] = "GET"
    _body = ""

    def __init__(self, path: str, /, **members: Member) -> None:
        self.path = path
        self._members = members
        self._via: Mapping[str, Any] = _NOTHING

    def via(
        self,
        source: str = "",
        *,
        optional: bool = False,
        signed: bool = False,
        accepts: Accepts = "json",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Get:
        """Return a copy of the call with another source, body format or headers, or marked as optional or signed in."""
        other = type(self)(self.path, **self._members)
        other._via = {
            "source": source, "optional": optional, "needs_session": signed, "accepts": accepts, "headers": headers,
        }  # fmt: skip
        return other

    @property
    def source(self) -> str:
        """The name of the source that the call names; empty for the platform's first source."""
        source: str = self._via.get("source", "")
        return source

    @property
    def accepts(self) -> Accepts:
        """The format of the response body if no map reads it."""
        accepts: Accepts = self._via.get("accepts", "json")
        return accepts

    def form(self, usual: Accepts) -> Accepts:
        """Return the call's body format if it is a `Form`, and otherwise `usual`."""
        return self.accepts if isinstance(self.accepts, Form) else usual

    @property
    def params(self) -> tuple[Param, ...]:
        """The parameters that the call uses, in the order of its members."""
        found: dict[str, Param] = {}
        for member in self._members.values():
            for param in (member,) if isinstance(member, Param) else member.params if isinstance(member, Made) else ():
                found.setdefault(param.name, param)
        return tuple(found.values())

    def at(self, args: Args, pages: Pages | None = None, **given: Value | tuple[str, ...] | None) -> Call:
        """Build the call for these arguments, or with `pages` for one page of a list.

        `given` contains additional members.
        """
        if pages is None:
            return self.make(args, self.accepts, _NOTHING, given)
        return self.make(args, self.form(pages.accepts), pages.paging.query(args), given)

    @cached_property
    def make(self) -> _Make:
        """The function that builds the call.

        It receives the arguments, the body format, the page's query members, and additional members.

        Raises:
            DeclarationError: A member of the path is not text. Calling the function raises it if a value is missing.
        """
        with declaring(f"call `{self.path}`"):
            return _compiled(self)

    def _display(self, written: Mapping[str, str]) -> str:
        """Return code for the arguments that follow the path in `Call(...)`."""
        return f"{{{_members(written)}**more, **page}}, {self._rest('None')}"

    def _rest(self, body: str) -> str:
        via = self._via
        return (
            f"{via.get('source', '')!r}, {via.get('headers', ())!r}, accepts, {self.method!r}, {body}, "
            f"{via.get('optional', False)}, {via.get('needs_session', False)}"
        )


class Post(Get):
    """A POST request that changes nothing and is retried like a GET. Its members are sent as a JSON object."""

    method = "POST"

    def _display(self, written: Mapping[str, str]) -> str:
        return f"{{}}, {self._rest(f'sent({{{_members(written)}**more, **page}})')}, None, True"


class PostForm(Get):
    """A POST request that changes nothing and is retried like a GET. Its members are sent as form data."""

    method = "POST"

    def _display(self, written: Mapping[str, str]) -> str:
        return f"{{}}, {self._rest('None')}, {{{_members(written)}**more, **page}}, True"


def _members(written: Mapping[str, str]) -> str:
    return "".join(f"{name!r}: {code}, " for name, code in written.items())


def _sent(members: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _compiled(get: Get) -> _Make:
    """Generate the function that builds the call.

    Most requests make a single call, and building it is most of their cost, so the generated code contains no loops.
    """
    if not get.path.startswith("/"):
        raise DeclarationError("the path must start with `/`")
    names: dict[str, Any] = {
        "Call": Call, "segment": segment, "several": _several, "sent": _sent, "of_page": partial(_of_page, get.path),
    }  # fmt: skip
    codes = {name: _code(member, names) for name, member in get._members.items()}
    in_path = {found[2] for found in _PLACE.finditer(get.path)}
    lines = [
        "def make(args, accepts, page, more):",
        "    values = args.values",
        *(["    more = {**more}"] if in_path - codes.keys() else ()),
    ]
    for name in sorted(in_path):
        if name in codes:
            _check_in_path(name, get._members[name])
            lines.append(f"    p_{name} = {codes[name]}")
        else:
            lines += [
                "    try:",
                f"        p_{name} = more.pop({name!r})",
                "    except KeyError:",
                f"        p_{name}, page = of_page({name!r}, page)",
            ]
    path = _PLACE.sub(_segment_code, get.path.replace("'", "%27"))
    query = {name: code for name, code in codes.items() if name not in in_path}
    lines.append(f"    return Call({'f' if in_path else ''}'{path}', {get._display(query)})")
    exec("\n".join(lines), names)  # noqa: S102 - generated above, from names that a platform declares
    function: _Make = names["make"]
    return function


def _check_in_path(name: str, member: Member) -> None:
    """Check that the member that fills a place in a path is text, as far as its declaration shows.

    Raises:
        DeclarationError: It is not.
    """
    if isinstance(member, Param) and member.type in ("integer", "boolean"):
        form = r', such as `pattern=r"\d{1,20}"`,' if member.type == "integer" else ""
        raise DeclarationError(
            f"`{name}` is in the path, so its parameter `{member.name}` must be text, but its type is `{member.type}`. "
            f"Declare it as text with a pattern{form} or with choices"
        )
    if not isinstance(member, Param | Made | Secret | str):
        raise DeclarationError(f"`{name}` is in the path, so it must be text, but it is {member!r}")


def _of_page(path: str, name: str, page: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the paging object's value for a place in a path, and its other members.

    Raises:
        DeclarationError: Neither the paging object nor the read gives a value.
    """
    if page.get(name) is None:
        raise DeclarationError(
            f"call `{path}`: `{name}` in the path has no value. Declare a member `{name}=...` of the call, or pass "
            f"`{name}=...` to `at`"
        )
    return str(page[name]), {other: value for other, value in page.items() if other != name}


def _segment_code(found: re.Match[str]) -> str:
    return f"{{{'several' if found[1] else 'segment'}(p_{found[2]})}}"


def _several(text: str) -> str:
    try:
        return "/".join(map(segment, text.split("/")))
    except (AttributeError, TypeError):
        return segment(text)  # raises DeclarationError


def _code(member: Member, names: dict[str, Any]) -> str:
    if isinstance(member, Param):
        return f"values[{member.name!r}]" if member.required else f"values.get({member.name!r})"
    if isinstance(member, Secret):
        return f"args.credentials.get({member.name!r})"
    if isinstance(member, Made):
        place = f"made_{len(names)}"
        names[place] = member.function
        return f"{place}({', '.join(f'values.get({param.name!r})' for param in member.params)})"
    place = f"value_{len(names)}"
    names[place] = member
    return place if member is not None else "None"


def single(
    *,
    resource: str,
    summary: str,
    archetype: Archetype,
    call: Get,
    record: MakeRecord,
    at: str = "",
    **options: Unpack[Options],
) -> Endpoint:
    """Return an endpoint for one record, which takes one call.

    `at` is the path of the record's object in the body. If it ends with `[0]`, the object is the first entry of a list,
    and the record does not exist if the list is empty.
    """
    return Endpoint(
        resource=resource,
        summary=summary,
        archetype=archetype,
        read=_read_of(call, record, at),
        **_completed(options, call.params, record, archetype),
    )


def fallback_to(*, source: str, call: Get, record: MakeRecord | Pages, at: str = "") -> Fallback:
    """Return a fallback that takes one call at another source, for one record or for a page of a list.

    `at` is as for `single`. If the source is at a supplier, the fallback needs the supplier.
    """
    there = call.via(source, accepts=call.accepts)
    needs = (source,) if source.partition("-")[0] == PARTNER else ()
    if isinstance(record, Pages):
        return Fallback(source=source, read=partial(_read_page, there, record, there.form(record.accepts)), needs=needs)
    return Fallback(source=source, read=_read_of(there, record, at), needs=needs)


def _read_of(call: Get, record: MakeRecord, at: str) -> Read:
    """Return the read of one record."""
    if at.endswith("[0]"):
        rows = Rows(record, at[:-3])
        return partial(_read_first, call, rows, call.form(rows if isinstance(record, RecordMap) else "json"))
    if isinstance(record, RecordMap):
        whole = record.inside(".".join(names_in(at))) if at else record
        return partial(_read_mapped, call, whole, call.form(whole))
    return partial(_read_by_hand, call, record, names_in(at))


def _read_mapped(call: Get, record: RecordMap, accepts: Accepts, args: Args) -> Steps:
    answer = yield call.make(args, accepts, _NOTHING, _NOTHING)
    return Single(record.read(answer.body, args.values))


def _read_by_hand(call: Get, record: Callable[[Any], Record], at: tuple[str, ...], args: Args) -> Steps:
    answer = yield call.make(args, call.accepts, _NOTHING, _NOTHING)
    found = answer.body
    for name in at:
        found = fields.obj(found).get(name)
    return Single(record(fields.obj(found) if call.accepts == "json" else found))


def _read_first(call: Get, rows: Rows, accepts: Accepts, args: Args) -> Steps:
    answer = yield call.make(args, accepts, _NOTHING, _NOTHING)
    found = rows.records(answer.body, 0, 1, args.values)
    if not found:
        raise NotFound
    return Single(found[0])


def listing(
    *,
    resource: str,
    summary: str,
    archetype: Archetype,
    call: Get,
    pages: Pages,
    collect: int = 0,
    **options: Unpack[Options],
) -> Endpoint:
    """Return an endpoint for a list that takes one call per page.

    `collect` is the maximum number of rows that a walk collects.
    """
    read = partial(_read_page, call, pages, call.form(pages.accepts))
    return listing_by(
        resource=resource,
        summary=summary,
        archetype=archetype,
        read=read,
        pages=pages,
        collect=collect,
        **_with_params(options, call.params),
    )


def listing_by(
    *,
    resource: str,
    summary: str,
    archetype: Archetype,
    read: Read,
    pages: Pages,
    collect: int = 0,
    **options: Unpack[Options],
) -> Endpoint:
    """Return an endpoint for a list whose `read` makes additional calls and returns `pages.page`.

    `params` are the parameters of these calls.
    """
    params = (*options.get("params", ()), *pages.paging.params(collect))
    fields = _completed({**options, "params": ()}, params, pages.record, archetype)
    if not pages.paging.total:
        fields["never"] = (*fields.get("never", ()), "total")
    fields["collect"] = Collect(pages.paging.size_max) if collect else None
    return Endpoint(resource=resource, summary=summary, archetype=archetype, read=read, **fields)


def _with_params(options: Options, params: tuple[Param, ...]) -> Options:
    return {**options, "params": (*params, *(one for one in options.get("params", ()) if one not in params))}


def _read_page(call: Get, pages: Pages, accepts: Accepts, args: Args) -> Steps:
    answer = yield call.make(args, accepts, pages.paging.query(args), _NOTHING)
    return pages.page(args, answer)


def _completed(options: Options, params: tuple[Param, ...], record: MakeRecord, archetype: Archetype) -> dict[str, Any]:
    """Return the fields of an endpoint, with defaults taken from its call and its map."""
    more = tuple(param for param in options.pop("params", ()) if param not in params)
    is_map = isinstance(record, RecordMap) and record.make is archetype.make
    return {**options, "params": (*params, *more), "record": record if is_map else None}
