"""Stores a finished job with results of given sizes that compress well, without running it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from scheduler.jobs.job_rows import COLUMNS

JOB_ID = "job_long"
_NULLABLE = ("key_id", "stopped_because", "node", "lease_until")


def rows_of_job(account_id: str, sizes: Sequence[int]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the statements, with parameters, that store a job whose results have this many bytes each."""
    values = {
        "id": JOB_ID,
        "kind": "batch-scrape",
        "account_id": account_id,
        "request_id": "req_" + "0" * 32,
        "spec": "{}",
        "status": "completed",
        "waves": 1,
        "planned": len(sizes),
        "done": len(sizes),
        "attempt": 1,
        "created_at": 1.0,
        "started_at": 1.0,
        "finished_at": 2.0,
    }
    names = [name.strip() for name in COLUMNS.split(",")]
    row = tuple(values.get(name, None if name in _NULLABLE else 0) for name in names)
    yield f"INSERT INTO jobs ({COLUMNS}) VALUES ({', '.join('?' * len(row))})", row
    for number, size in enumerate(sizes, 1):
        result = zlib.compress(orjson.dumps({"page": {"content": {"markdown": "x" * size}}}))
        yield (
            "INSERT INTO job_steps (job_id, number, wave, name, status, result, ended_at) VALUES (?, ?, 1, ?, ?, ?, 2)",
            (JOB_ID, number, f"https://site.test/{number}", "done", result),
        )


def store_job(run: Callable[..., object], account_id: str, sizes: Sequence[int]) -> None:
    """Store a long job. `run` executes a statement with its parameters."""
    for sql, params in rows_of_job(account_id, sizes):
        run(sql, *params)
