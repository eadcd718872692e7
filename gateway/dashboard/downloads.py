"""Downloads from pages, whole or in pieces. CSV cells are escaped so that spreadsheets do not run them as formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

from quart import Response, request

from gateway.dashboard.frame import PIECES

CSV: Final = "text/csv; charset=utf-8"
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_of(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows as CSV. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    file = io.StringIO()
    csv.writer(file).writerows([[_plain(cell) for cell in row] for row in rows])
    return file.getvalue()


def download(file: str, body: str, *, content_type: str = CSV) -> Response:
    """Return a file to download."""
    return Response(body, 200, {"content-disposition": f'attachment; filename="{file}"'}, content_type=content_type)


def long_download(file: str, pieces: AsyncIterator[bytes], *, content_type: str = CSV) -> Response:
    """Return a file that is produced while the browser downloads it."""
    request.scope[PIECES] = pieces  # type: ignore[typeddict-unknown-key]
    return download(file, "", content_type=content_type)


def _plain(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
