"""Reads `track`, the numbers of a numbers-only monitor, checked against the recipe's fields (spec 2.6, 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from scheduler.errors import TrackInvalid
from scheduler.json_input import kind_of, nearest, object_at, quoted
from scheduler.monitors.metrics.paths import PATH_MAX, Suggestion, is_path, numbers_in, suggest
from scheduler.monitors.metrics.shapes import ROW, ArchetypeShape, Kind, shape_of
from upstreams.model.archetypes import Archetype

METRICS_MAX: Final = 20
ROWS_MAX: Final = 200
ROWS_DEFAULT: Final = 100
_LISTED_MAX = 12
"""The maximum number of paths listed in a message."""
_IN_WORDS: Mapping[Kind, str] = {"text": "text", "boolean": "a boolean", "array": "an array", "object": "an object"}
_PARAM, _KEY_PARAM = "track.metrics", "track.row_key"


@dataclass(frozen=True, slots=True)
class Track:
    """Paths to numbers, the path in a row to its id (None if no rows are read), and the maximum number of rows per run.

    `is_named` means that the owner has set `max_rows`, so each run requests that many rows.
    """

    metrics: tuple[str, ...]
    row_key: str | None = None
    max_rows: int = ROWS_DEFAULT
    is_named: bool = False

    @property
    def rows_asked(self) -> int | None:
        """The number of rows that a run requests from its recipe, or None to use the recipe's own parameters."""
        return self.max_rows if self.is_named and any(path.startswith(ROW) for path in self.metrics) else None

    def to_json(self) -> dict[str, Any]:
        """Return the track as shown to its owner."""
        return {"metrics": list(self.metrics), "row_key": self.row_key, "max_rows": self.max_rows}

    def stored(self) -> str:
        """Return the track in stored form."""
        return orjson.dumps({**self.to_json(), "is_named": self.is_named}).decode()


class ReadTrack(NamedTuple):
    """A valid track, and warnings for its owner."""

    track: Track
    warnings: list[str]


def stored_track(kept: Mapping[str, Any]) -> Track:
    """Return the track from the JSON that `stored` wrote. Older tracks lack `is_named`."""
    return Track(tuple(kept["metrics"]), kept["row_key"], kept["max_rows"], kept.get("is_named", False))


def rows_asked(stored: str | None) -> int | None:
    """Return the number of rows that a run of a monitor with this stored track requests (see `Track.rows_asked`)."""
    return None if stored is None else stored_track(orjson.loads(stored)).rows_asked


def read_track(sent: object, archetype: Archetype | None, never: frozenset[str] = frozenset()) -> ReadTrack:
    """Validate the track in a client's JSON against the fields that the recipe's endpoint fills.

    `archetype` is None if nothing is known about the endpoint's responses. `never` contains the record fields that it
    never fills.

    Raises:
        TrackInvalid: the track cannot be read, or a path does not lead to a number.
    """
    fields = object_at("track", sent, ("metrics", "row_key", "max_rows"), refuse=TrackInvalid)
    shape = None if archetype is None else shape_of(archetype, never)
    metrics, warnings = _metrics(fields.get("metrics")), []
    for place, path in enumerate(metrics):
        _check_metric(f"{_PARAM}[{place}]", path, shape)
        if _is_unchecked(path, shape):
            warnings.append(_unchecked(path))
    row_key = fields.get("row_key")
    if row_key is not None:
        row_key = _checked_key(row_key, shape)
        if _is_unchecked(f"{ROW}{row_key}", shape):
            warnings.append(_unchecked(row_key))
    elif any(path.startswith(ROW) for path in metrics):
        row_key = _default_key(shape)
    max_rows = _max_rows(fields.get("max_rows", ROWS_DEFAULT))
    return ReadTrack(Track(metrics, row_key, max_rows, "max_rows" in fields), warnings)


def _metrics(sent: object) -> tuple[str, ...]:
    how = f"Send an array of 1 to {METRICS_MAX} paths such as items[].post.engagement.views or author.followers."
    if not isinstance(sent, list):
        raise TrackInvalid(_PARAM, f"must be an array, not {kind_of(sent)}", how)
    if not 1 <= len(sent) <= METRICS_MAX:
        raise TrackInvalid(_PARAM, f"must contain 1 to {METRICS_MAX} paths, not {len(sent)}", how)
    for place, path in enumerate(sent):
        if not isinstance(path, str):
            raise TrackInvalid(f"{_PARAM}[{place}]", f"must be text, not {kind_of(path)}", how)
        if not 1 <= len(path) <= PATH_MAX:
            raise TrackInvalid(f"{_PARAM}[{place}]", f"must have 1 to {PATH_MAX} characters", how)
        if path in sent[:place]:
            raise TrackInvalid(f"{_PARAM}[{place}]", f"repeats {quoted(path)}", "Send each path once.")
    return tuple(sent)


def _max_rows(sent: object) -> int:
    if not isinstance(sent, int) or isinstance(sent, bool) or not 1 <= sent <= ROWS_MAX:
        raise TrackInvalid("track.max_rows", f"must be a whole number from 1 to {ROWS_MAX}", f"Send 1 to {ROWS_MAX}.")
    return sent


def _check_metric(param: str, path: str, shape: ArchetypeShape | None) -> None:
    if shape is None:
        if not is_path(path):
            raise _no_path(param, path)
    elif path in shape.never:
        problem = f"{quoted(path)} is never filled by this recipe's platform"
        raise TrackInvalid(param, problem, _listing(shape), did_you_mean=nearest(path, numbers_in(shape), cutoff=0.9))
    elif shape.kinds.get(path) != "number" and not (is_path(path) and shape.is_open_at(path)):
        raise _no_number(param, path, shape)


def _is_unchecked(path: str, shape: ArchetypeShape | None) -> bool:
    return shape is None or shape.is_open_at(path)


def _unchecked(path: str) -> str:
    return f"{path} could not be checked: this recipe's responses do not declare their fields there"


def _no_path(param: str, path: str) -> TrackInvalid:
    how = "Separate the names with dots. Begin with items[]. for a number in each row."
    return TrackInvalid(param, f"is not a path: {quoted(path)}", how)


def _no_number(param: str, path: str, shape: ArchetypeShape) -> TrackInvalid:
    kind = shape.kinds.get(path)
    meant = None if kind else suggest(path, numbers_in(shape))
    # The suggestion may lead to something other than a number.
    if kind is None and (meant is None or not meant.misplaced):
        elsewhere = suggest(path, shape.kinds)
        if elsewhere is not None and elsewhere.misplaced:
            path, kind = elsewhere.path, shape.kinds[elsewhere.path]
    if kind is not None:
        return _wrong_kind(param, path, kind, shape)
    if meant is None:
        return TrackInvalid(param, f"{quoted(path)} is not a number in this recipe's responses", _listing(shape))
    return _another_path(param, path, meant)


def _wrong_kind(param: str, path: str, kind: Kind, shape: ArchetypeShape) -> TrackInvalid:
    below = min(numbers_in(shape, f"{path}."), key=len, default=None)
    return TrackInvalid(
        param,
        f"must lead to a number; {quoted(path)} is {_IN_WORDS[kind]}",
        _listing(shape, f"{path}." if below else ""),
        did_you_mean=below or nearest(path, numbers_in(shape), cutoff=0.9),
    )


def _another_path(param: str, path: str, meant: Suggestion) -> TrackInvalid:
    if meant.misplaced:
        problem = f"names {quoted(path)} at the wrong level; its path is {meant.path}"
    else:
        problem = f"{quoted(path)} is not a number in this recipe's responses; did you mean {meant.path}?"
    return TrackInvalid(param, problem, f"Send {meant.path}.", did_you_mean=meant.path)


def _listing(shape: ArchetypeShape, below: str = "") -> str:
    numbers = list(numbers_in(shape, below))
    more = f" and {len(numbers) - _LISTED_MAX} more" if len(numbers) > _LISTED_MAX else ""
    return (
        f"This recipe's numbers are {', '.join(numbers[:_LISTED_MAX])}{more}."
        if numbers
        else "This recipe's responses contain no numbers."
    )


def _checked_key(sent: object, shape: ArchetypeShape | None) -> str:
    if not isinstance(sent, str) or not is_path(sent):
        what = quoted(sent) if isinstance(sent, str) else kind_of(sent)
        raise TrackInvalid(_KEY_PARAM, f"must be a path inside a row, not {what}", "Send a path such as post.id.")
    if shape is not None and not shape.is_list:
        raise TrackInvalid(_KEY_PARAM, "is not allowed: this recipe returns no rows", "Omit row_key.")
    if sent.startswith(ROW):
        key = sent.removeprefix(ROW)
        problem = f"is relative to each row, so it must not start with {ROW}"
        raise TrackInvalid(_KEY_PARAM, problem, f"Send {key}.", did_you_mean=key)
    if shape is not None and not shape.is_open_at(f"{ROW}{sent}"):
        _check_key_kind(sent, shape)
    return sent


def _check_key_kind(key: str, shape: ArchetypeShape) -> None:
    """Check that a row's id is text or a number."""
    kind = shape.kinds.get(f"{ROW}{key}")
    if kind in ("text", "number"):
        return
    ids = [path.removeprefix(ROW) for path, kind in shape.kinds.items() if path.startswith(ROW) and kind == "text"]
    meant = suggest(key, ids)
    problem = f"must lead to a row's id; {quoted(key)} is {_IN_WORDS[kind] if kind else 'not in a row'}"
    how = f"Send {meant.path}." if meant else f"Send one of {', '.join(ids[:_LISTED_MAX])}."
    raise TrackInvalid(_KEY_PARAM, problem, how, did_you_mean=meant.path if meant else None)


def _default_key(shape: ArchetypeShape | None) -> str:
    if shape is not None and shape.row_key is not None:
        return shape.row_key
    ids = [path for path in shape.kinds if path.startswith(ROW) and path.endswith(".id")] if shape else []
    example = min(ids, key=len).removeprefix(ROW) if ids else "item.id"
    problem = "must be set: this recipe's rows have no default key"
    raise TrackInvalid(_KEY_PARAM, problem, f"Send the path in a row to its unique id, such as {example}.")
