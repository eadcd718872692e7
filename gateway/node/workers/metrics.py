"""The metrics of several workers as one text: every sample with the number of its worker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gateway.node.workers.slots import Slot

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})? (?P<value>[^ ]+)$")


def merge(texts: Mapping[int, str]) -> str:
    """One text of the workers' texts, which are by their numbers; each family stands once, and its samples together."""
    families: dict[tuple[str, ...], list[str]] = {}
    for number, text in texts.items():
        for heading, samples in _families(text):
            families.setdefault(heading, []).extend(filter(None, (_labelled(sample, number) for sample in samples)))
    return "".join(f"{line}\n" for heading, samples in families.items() for line in (*heading, *samples))


def own_metrics(slots: Sequence[Slot], answered: Mapping[int, str]) -> str:
    """The supervisor's own metrics of its workers."""
    return "".join(
        (
            "# HELP sluice_worker_up Whether the worker answered this scrape.\n# TYPE sluice_worker_up gauge\n",
            *(f'sluice_worker_up{{worker="{slot.number}"}} {int(slot.number in answered)}.0\n' for slot in slots),
            "# HELP sluice_worker_deaths_total Workers that ended by themselves and were replaced.\n",
            "# TYPE sluice_worker_deaths_total counter\n",
            *(f'sluice_worker_deaths_total{{worker="{slot.number}"}} {slot.deaths}.0\n' for slot in slots),
        )
    )


def _families(text: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Each family: its lines of HELP and TYPE, and its samples, if there are any."""
    for family in re.split(r"^(?=# HELP )", text, flags=re.MULTILINE):
        lines = family.splitlines()
        heading = tuple(line for line in lines if line.startswith("#"))
        if heading:
            yield heading, lines[len(heading) :]


def _labelled(sample: str, number: int) -> str:
    """A sample with the number of its worker; empty for what is none, since no worker has said it."""
    found = _SAMPLE.match(sample)
    if found is None:
        return ""
    labels = f",{found['labels']}" if found["labels"] else ""
    return f'{found["name"]}{{worker="{number}"{labels}}} {found["value"]}'
