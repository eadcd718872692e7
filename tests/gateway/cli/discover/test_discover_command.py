"""`sluice discover` against a real node with the sandbox as its upstream."""

from __future__ import annotations

import os

import orjson

from tests.processes.place import Ended, Place, Served


def ran(place: Place, node: Served, key: str, *arguments: str) -> Ended:
    environ = {"PATH": os.environ["PATH"], "SLUICE_API_KEY": key, "SLUICE_URL": node.url}
    return place.run("discover", *arguments, **environ)


def test_run_is_started_awaited_shown_and_its_rows_printed(place: Place) -> None:
    account, key = place.new_key(balance=100)
    with place.serve("--sandbox") as node:
        begun = ran(place, node, key["key"], "run", "trio", "--max-credits", "50", "--platform", "hackernews", "--json")
        run = begun.json
        assert (run["status"], run["keywords"], run["credits"]["reserved"]) == ("completed", ["trio"], 20), begun
        shown = ran(place, node, key["key"], "show", run["run_id"])
        assert (shown.exit_code, shown.err) == (0, "")
        assert shown.out.startswith(f"run_id={run['run_id']}  status=completed  ")
        results = ran(place, node, key["key"], "results", run["run_id"])
        rows = [orjson.loads(line) for line in results.out.splitlines()]
        assert len(rows) == run["counts"]["rows_kept"] > 0
        rest = ran(place, node, key["key"], "results", run["run_id"], "--after", rows[0]["row_id"])
        assert len(rest.out.splitlines()) == len(rows) - 1
        assert ran(place, node, key["key"], "results", run["run_id"], "--new").out == ""
        stored = place.json_of("discover", "show", run["run_id"])
        assert (stored["account"], stored["status"], stored["credits"]) == (account, "completed", run["credits"])
        own = place.operate("discover", "results", run["run_id"])
        assert [orjson.loads(line)["row_id"] for line in own.out.splitlines()] == [row["row_id"] for row in rows]
    assert "unknown discover run dr_none" in place.operate("discover", "show", "dr_none").refused(1)


def test_run_accepts_dates_and_language(place: Place) -> None:
    _, key = place.new_key(balance=100)
    terms = ("trio", "--max-credits", "5", "--platform", "hackernews", "--json")
    with place.serve("--sandbox") as node:
        none = ran(place, node, key["key"], "run", *terms, "--date-to", "1999-12-31").json
        assert (none["status"], none["counts"]["rows_kept"]) == ("completed", 0)
        some = ran(place, node, key["key"], "run", *terms, "--date-from", "2001-01-01", "--language", "en").json
        assert some["counts"]["rows_kept"] > 0
        wrong = ran(place, node, key["key"], "run", *terms, "--date-from", "soon").refused(1)
        assert "date_from" in wrong


def test_errors_are_printed_on_one_line(place: Place) -> None:
    _, key = place.new_key(balance=100)
    with place.serve("--sandbox") as node:
        assert "--max-credits" in ran(place, node, key["key"], "run", "trio").refused(2)
        assert "'posts'" in ran(place, node, key["key"], "run", "x", "--max-credits", "1", "--view", "post").refused(2)
        wrong = ran(place, node, key["key"], "run", "x", "--max-credits", "1", "--platform", "hackernws").refused(1)
        assert "platforms[0]" in wrong
        assert "discover run dr_none" in ran(place, node, key["key"], "show", "dr_none").refused(1)
        assert "SLUICE_API_KEY" in ran(place, node, "", "show", "dr_none").refused(2)
