"""Sections 4.1 and 4.3: paging parameters of other APIs get a suggestion, and URLs may have any common spelling.

Method: the tables of `tests/spec/spellings.py`, checked with declarations and reads, without a socket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from gateway.http.errors import CORRECT, InvalidParam
from gateway.http.params import declared_by
from tests.spec.rows import ROWS, Row
from tests.spec.spellings import ADDRESSES, CURSORS, ELSEWHERE, LIMITS
from upstreams.model.errors import InvalidArgument
from upstreams.model.params import Args
from upstreams.model.steps import Call
from upstreams.sandbox.rehearse import example_values

BY_ID: Mapping[str, Row] = {row.id: row for row in ROWS}
LISTS = [row for row in ROWS if row.endpoint.archetype.many]


def refusal(row: Row, name: str) -> InvalidParam:
    with pytest.raises(InvalidParam) as refused:
        declared_by(row.endpoint).read(
            [*((key, str(value)) for key, value in example_values(row.endpoint).items()), (name, "2")]
        )
    return refused.value


def removing(name: str) -> dict[str, object]:
    return {"remove_params": [name], "param": name, "next_step": CORRECT}


def undeclared(row: Row, names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if name not in {param.name for param in row.endpoint.params})


@pytest.mark.parametrize("names", CURSORS.values(), ids=CURSORS.keys())
def test_foreign_position_names_suggest_cursor(names: tuple[str, ...]) -> None:
    for row in LISTS:
        for name in undeclared(row, names):
            assert refusal(row, name).details == {"did_you_mean": "cursor", **removing(name)}


@pytest.mark.parametrize("names", LIMITS.values(), ids=LIMITS.keys())
def test_foreign_size_names_suggest_limit(names: tuple[str, ...]) -> None:
    limited = [row for row in LISTS if any(param.name == "limit" for param in row.endpoint.params)]
    assert limited
    for row in limited:
        for name in undeclared(row, names):
            assert refusal(row, name).details == {"did_you_mean": "limit", **removing(name)}


def test_unpaginated_endpoint_suggests_no_paging() -> None:
    """Goal: no suggestion is better than a wrong one. Method: send every foreign name to an endpoint of one record."""
    for names in (*CURSORS.values(), *LIMITS.values()):
        for name in undeclared(BY_ID["github/profile"], names):
            refused = refusal(BY_ID["github/profile"], name)
            assert refused.details == {"reason": "invalid_param", **removing(name)}
            assert "Valid parameters: handle" in refused.message


def first_call(id_: str, url: str) -> str:
    """Return the URL of a request's first upstream call."""
    row = BY_ID[id_]
    sent = {**example_values(row.endpoint), "url": url}
    values = declared_by(row.endpoint).read([(name, str(value)) for name, value in sent.items()])
    args = row.endpoint.resolve(Args(values))
    step = next(iter(row.endpoint.read(args)))
    assert isinstance(step, Call)
    return row.platform.address(step, args.values) + step.target("")


@pytest.mark.parametrize("id_", ADDRESSES)
def test_every_url_spelling_reads_the_same_resource(id_: str) -> None:
    assert len({first_call(id_, url) for url in ADDRESSES[id_]}) == 1


@pytest.mark.parametrize("id_", ELSEWHERE)
def test_url_without_a_resource_is_rejected_by_name(id_: str) -> None:
    for url in ELSEWHERE[id_]:
        with pytest.raises((InvalidArgument, InvalidParam)) as refused:
            first_call(id_, url)
        assert refused.value.param == "url"
