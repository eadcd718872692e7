"""Converts the shared SQL into PostgreSQL's syntax, and values into text for the wire.

Lists and rows are sent as one array per column. The SQL therefore does not depend on their length, and is prepared only
once.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import orjson
from psycopg import pq

from storage.errors import ConstraintViolated
from storage.store import Row, Value

NOW: Final = "extract(epoch FROM clock_timestamp())::double precision"
# Writers lock accounts against each other, but rows that only refer to an account can still be inserted.
LOCK: Final = "FOR NO KEY UPDATE"

_ARRAYS = {int: "bigint[]", float: "double precision[]", str: "text[]", bytes: "bytea[]"}
_MARKS = re.compile(r"'[^']*'|\bIN \{in\}|\bVALUES \{rows\}|\{in\} AS (\w+)|\?")
_NONE = type(None)


def translate(sql: str, types: Sequence[type], *, query_only: bool = False) -> str:
    """Return `sql` with numbered parameters.

    `types` are the types of the columns of `{rows}`, or of the values of `{in}`.
    """
    count = 0

    def numbered(mark: re.Match[str]) -> str:
        nonlocal count
        text = mark[0]
        if text[0] == "'":
            return text
        first = count + 1
        count += len(types) if text == "VALUES {rows}" else 1
        if text == "?":
            return f"${first}"
        if text == "VALUES {rows}":
            return _rows(types, first)
        array = f"${first}::{_ARRAYS.get(types[0], 'text[]')}"
        return f"= ANY({array})" if text == "IN {in}" else f"unnest({array}) AS {mark[1]} (value)"

    return _MARKS.sub(numbered, sql.replace("{now}", NOW).replace("{lock}", "" if query_only else LOCK))


def _rows(types: Sequence[type], first: int) -> str:
    """Return SQL for rows from arrays.

    A column that has only NULLs is a bare NULL, because its array type is unknown.
    """
    names = [f"column{number}" for number in range(len(types))]
    arrays = ", ".join(f"${first + number}::{_ARRAYS.get(one, 'text[]')}" for number, one in enumerate(types))
    columns = ", ".join("NULL" if one is _NONE else name for name, one in zip(names, types, strict=True))
    return f"SELECT {columns} FROM unnest({arrays}) AS given ({', '.join(names)})"  # noqa: S608 - made of constants


def type_of(values: Sequence[Value]) -> type:
    """Return the single type of a column's values; the type of None if all are None."""
    types = set(map(type, values))
    types.discard(_NONE)
    if len(types) > 1:
        assert types == {int, float}, f"a column of {types}"
        return float
    return types.pop() if types else _NONE


def encode(value: Value) -> bytes | None:
    """Encode a parameter.

    Raises:
        ConstraintViolated: the text contains a NUL, at which the driver would silently cut the text off.
    """
    if value is None:
        return None
    if isinstance(value, str):
        text = value.encode()
        if b"\0" in text:
            raise ConstraintViolated("a text contains a NUL")
        return text
    if isinstance(value, bytes):
        return b"\\x" + value.hex().encode()
    return b"%d" % value if isinstance(value, int) else repr(value).encode()


def encode_array(values: Sequence[Value], kind: type) -> bytes:
    """Encode a parameter that is an array of `kind`."""
    if kind is not bytes:
        text = orjson.dumps(values, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
        # JSON's arrays look like PostgreSQL's, except for the brackets and for the escapes in some texts.
        if b"\\" not in text:
            return b"{" + text[1:-1] + b"}"
    return b"{" + b",".join([b"null" if value is None else _element(value) for value in values]) + b"}"


def _element(value: str | bytes | float) -> bytes:
    text = encode(value)
    assert text is not None
    return b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def _number(text: bytes) -> int | float:
    """Return the number. PostgreSQL's sum of integers is a `numeric`, which is returned as an integer."""
    return int(text) if text.lstrip(b"-").isdigit() else float(text)


_READ: dict[int, Callable[[bytes], object]] = {
    16: lambda text: int(text == b"t"),
    17: lambda text: bytes.fromhex(text[2:].decode()),
    20: int,
    21: int,
    23: int,
    26: int,
    700: float,
    701: float,
    1700: _number,
}


def rows_of(result: pq.abc.PGresult) -> list[Row]:
    """Return the rows of a result, with Python types."""
    columns = range(result.nfields)
    readers = [_READ.get(result.ftype(column), bytes.decode) for column in columns]
    value = result.get_value
    return [
        tuple([None if (text := value(row, column)) is None else readers[column](text) for column in columns])
        for row in range(result.ntuples)
    ]
