"""The targets of the fuzzer: the cases of each side, their check, and the file format of a case."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.answers import SOUND_TURNS, TURNS
from tests.fuzz.edge import Attack, check_attack
from tests.fuzz.frames import SOCKET_ATTACKS, SOUND_SOCKET_ATTACKS
from tests.fuzz.requests import ATTACKS, SOUND_ATTACKS
from tests.fuzz.sockets import check_socket
from tests.fuzz.upstream import Turn, check_turns

Case = Attack | tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """One side. `check` raises if a case breaks an invariant."""

    cases: st.SearchStrategy[Any]
    check: Callable[[Any], object]


TARGETS = MappingProxyType(
    {
        "edge": Target(st.one_of(ATTACKS, ATTACKS, ATTACKS, SOUND_ATTACKS), check_attack),
        "websocket": Target(st.one_of(SOCKET_ATTACKS, SOCKET_ATTACKS, SOUND_SOCKET_ATTACKS), check_socket),
        "upstream": Target(st.one_of(TURNS, TURNS, TURNS, SOUND_TURNS), check_turns),
    }
)


def as_text(name: str, case: Case) -> str:
    """Return a case of the target `name` as JSON; bytes are written as Latin-1."""
    parts = [case] if isinstance(case, Attack) else list(case)
    told = [{**asdict(part), "data": part.data.decode("latin-1")} for part in parts]
    return json.dumps({"target": name, "parts": told}, indent=1) + "\n"


def from_text(text: str) -> tuple[str, Case]:
    """Return the target's name and the case from a text that `as_text` wrote."""
    told = json.loads(text)
    kind = Turn if told["target"] == "upstream" else Attack
    parts = [
        kind(**{**part, "data": part["data"].encode("latin-1"), "cuts": tuple(part["cuts"])}) for part in told["parts"]
    ]
    return told["target"], parts[0] if kind is Attack else tuple(parts)
