"""The check of a whole platform: everything that is otherwise compiled or run for the first time during a request."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from upstreams.model.calls import Get
from upstreams.model.checking import declaring, unknown_names
from upstreams.model.endpoint import Endpoint, Platform
from upstreams.model.errors import DeclarationError, InvalidArgument, UpstreamError
from upstreams.model.fields.maps import RecordMap, Rows
from upstreams.model.params import Args, Param, Value
from upstreams.model.paths import count_detours
from upstreams.model.refusals import Cases, Refusals
from upstreams.model.steps import Call, Wanted

_MODEL: Final = "upstreams.model"
_CASES: Final = ("absent", "gone", "private", "throttled", "stale", "passing")


def check_platforms(platforms: Iterable[Platform]) -> None:
    """Check each of these platforms with `check_platform`.

    Raises:
        DeclarationError: A declaration is faulty. The message has a line for each fault of each platform.
    """
    faults: list[str] = []
    for platform in platforms:
        try:
            check_platform(platform)
        except DeclarationError as exc:
            faults.append(str(exc))
    _refuse(faults)


def check_platform(platform: Platform) -> None:
    """Compile every call and map of a platform, check its refusals, and run each read up to its first call.

    The reads run once with as few parameters as possible and once with all of them, with their example values.

    Raises:
        DeclarationError: The declaration is faulty. The message has a line for each fault.
    """
    faults: list[str] = []

    def check(part: str, work: Callable[[], None]) -> None:
        try:
            with declaring(f"platform `{platform.slug}`"), declaring(part):
                work()
        except DeclarationError as exc:
            faults.extend(str(exc).splitlines())

    if isinstance(platform.refusals, Refusals):
        check("`refusals`", partial(_check_refusals, platform, platform.refusals))
    seen: dict[int, Any] = {}
    for endpoint in platform.endpoints:
        place, known = f"endpoint `{endpoint.resource}`", len(faults)
        for one in _parts_of((endpoint.read, endpoint.fallbacks, endpoint.many, endpoint.record), seen):
            check(place, partial(_check_part, platform, one))
        if len(faults) == known:  # otherwise, the read would fail for the same reason
            check(place, partial(_check_reads, platform, endpoint, _fewest))
            check(place, partial(_check_reads, platform, endpoint, _all))
    _refuse(dict.fromkeys(faults))


def _check_part(platform: Platform, part: Get | RecordMap | Rows) -> None:
    if isinstance(part, Get):
        _ = part.make
        with declaring(f"call `{part.path}`"):
            _refuse(unknown_names("source", [part.source] if part.source else [], platform.sources))
    else:
        part.compile()


def _refuse(faults: Iterable[str]) -> None:
    if lines := "\n".join(faults):
        raise DeclarationError(lines)


def _check_reads(platform: Platform, endpoint: Endpoint, choose: Callable[[Endpoint], Iterable[Param]]) -> None:
    """Run the reads of an endpoint up to their first call, with the example values of the chosen parameters."""
    found = {one.name: _example(one) for one in choose(endpoint)}
    with suppress(InvalidArgument):
        found = dict(endpoint.normalize(found))
    values = endpoint.with_defaults(found)
    reads = [(endpoint.read, endpoint.own_needs), *((one.read, one.needs) for one in endpoint.fallbacks if one.read)]
    for read, needs in reads:
        credentials = {name.partition("|")[0]: "secret" for name in (*endpoint.needs, *needs)}
        with suppress(UpstreamError):  # the values, or what the node has stored, do not lead to a call
            args = endpoint.resolve(Args(values, credentials=credentials))
            steps = read(args)
            wanted = next(steps, None)
            steps.close()
            if wanted is None:
                raise DeclarationError("a read ends before its first call")
            _refuse(_faults_of_calls(platform, endpoint, wanted))


def _faults_of_calls(platform: Platform, endpoint: Endpoint, wanted: Wanted) -> Iterator[str]:
    for call in wanted if isinstance(wanted, tuple) else (wanted,):
        if not isinstance(call, Call):
            continue
        if count_detours(call):
            yield f"call `{call.path}`: the path has an empty segment, or one that leads elsewhere"
        source = call.source or next(iter(platform.sources), "")
        if source not in platform.sources:
            yield from unknown_names("source of a call", [source], platform.sources)
            continue
        host = platform.host_of(source)
        if host is not None and not call.host:
            names = [param.name for param in endpoint.params]
            yield from unknown_names("parameter in the address of its source", [host], names)


def _fewest(endpoint: Endpoint) -> list[Param]:
    """Return the required parameters and the first of each alternative."""
    wanted = {group[0] for group in endpoint.one_of}
    return [one for one in endpoint.params if one.required or one.name in wanted]


def _all(endpoint: Endpoint) -> list[Param]:
    """Return all parameters, with the last of each alternative."""
    unwanted = {name for group in endpoint.one_of for name in group[:-1]}
    return [one for one in endpoint.params if one.name not in unwanted]


def _example(param: Param) -> Value:
    """Return the example of a parameter, as a request carries it."""
    if param.type == "integer":
        return int(param.example)
    if param.type == "boolean":
        return param.example == "true"
    try:
        return param.canonical(param.example)
    except InvalidArgument as exc:
        raise DeclarationError(f"parameter `{param.name}`: its example `{param.example}` {exc.problem}") from exc


def _check_refusals(platform: Platform, refusals: Refusals) -> None:
    _refuse(_faults_of_refusals(platform, refusals))


def _faults_of_refusals(platform: Platform, refusals: Refusals) -> Iterator[str]:
    if refusals.hidden and not refusals.code:
        yield "`hidden` needs `code`, the member that marks an error"
    for field in _CASES:
        cases: Cases = getattr(refusals, field)
        yield from _faults_of_keys(field, cases, refusals)
        words = cases.values() if isinstance(cases, Mapping) else ()
        for word in (one for found in words for one in ((found,) if isinstance(found, str) else found)):
            if word != word.lower():
                yield f"`{field}`: the word `{word}` must be in lower case, because messages are compared in lower case"
    yield from _faults_of_keys("bad", tuple(refusals.bad), refusals)
    names = {"cursor": None} | {param.name: None for endpoint in platform.endpoints for param in endpoint.params}
    for param in refusals.bad.values():
        yield from unknown_names("parameter in `bad`", [param] if isinstance(param, str) else param.values(), names)


def _faults_of_keys(field: str, cases: Cases, refusals: Refusals) -> Iterator[str]:
    for key in cases:
        if isinstance(key, int) and not 100 <= key <= 599:
            yield f'`{field}`: {key} is not a status; a code of the body is a text, such as `"{key}"`'
        elif isinstance(key, str) and not refusals.code:
            yield f"`{field}`: `{key}` is a code of the body, so `code` must name the member that contains it"


def _parts_of(root: Any, seen: dict[int, Any]) -> Iterator[Get | RecordMap | Rows]:
    """Yield the calls and maps that can be reached from an object, without the objects that were already seen.

    It follows attributes, containers, partial calls, and the closures and global names of functions. `seen` keeps the
    objects, so that their identities stay unique.
    """
    waiting = deque([root])
    while waiting:
        one = waiting.popleft()
        if isinstance(one, Platform | type) or id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, Get | RecordMap | Rows):
            yield one
        waiting.extend(_referred(one))


def _referred(one: Any) -> Iterable[Any]:
    """Return the objects to which an object refers directly."""
    found: Iterable[Any] = ()
    if isinstance(one, FunctionType):
        found = _of_function(one)
    elif isinstance(one, MethodType):
        found = (one.__self__, one.__func__)
    elif isinstance(one, partial):
        found = (one.func, *one.args, *one.keywords.values())
    elif isinstance(one, Mapping):
        found = one.values()
    elif isinstance(one, tuple | list | set | frozenset):
        found = one
    elif type(one).__module__.startswith(_MODEL) or _may_declare(type(one).__module__):
        slots = (name for kind in type(one).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(one, name))
        found = (*getattr(one, "__dict__", {}).values(), *(getattr(one, name) for name in slots))
    return found


def _may_declare(module: str) -> bool:
    """Return whether a module may contain parts of a declaration."""
    return module.partition(".")[0] not in sys.stdlib_module_names and not module.startswith(_MODEL)


def _of_function(function: FunctionType) -> Iterator[Any]:
    """Yield the objects that a function refers to."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # the variable is not assigned yet
            yield cell.cell_contents
    if not _may_declare(function.__module__ or _MODEL):
        return
    names = set(_names_in(function.__code__))
    for name in sorted(names & function.__globals__.keys()):
        found = function.__globals__[name]
        if not isinstance(found, ModuleType):
            yield found
        elif _may_declare(found.__name__):
            yield from (vars(found)[other] for other in sorted(names & vars(found).keys()))


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _names_in(one)
