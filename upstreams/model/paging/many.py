"""Reads that request many records with one call, for upstreams that accept several ids. Batches use them."""

from __future__ import annotations

from collections.abc import Sequence

from upstreams.model.calls import Get
from upstreams.model.fields.maps import Rows
from upstreams.model.params import Args, Param
from upstreams.model.steps import Many, Single, Steps


def many(
    param: Param, size: int, call: Get, rows: Rows, *, member: str = "id", apart: str = ",", needs: tuple[str, ...] = ()
) -> Many:
    """Return a read that requests many records with one call.

    The ids are sent in `member`, separated by `apart`. Each record must contain its own id, so that it can be matched.
    """

    def read(values: Sequence[str], args: Args) -> Steps:
        answer = yield call.make(args, call.accepts, {}, {member: apart.join(values)})
        found = rows.records(answer.body, given=args.values) if answer.body else []
        return Single({str(one["id"]): one for one in found})

    return Many(param.name, size, read, needs)
