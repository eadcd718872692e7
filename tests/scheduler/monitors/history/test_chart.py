"""The chart of a metric: well-formed XML for any content, everything within its frame, alerts marked."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.monitors.history.chart import HEIGHT, WIDTH, ChartPoint, chart_svg, points_of
from tests.scheduler.monitors.past import FIRST, HOUR_S, NUMBER, VIEWS, past

SVG = "{http://www.w3.org/2000/svg}"
ALERT = {"metric": VIEWS, "op": "gt", "from": None, "to": 30, "delta": None, "pct_change": None, "row_id": "p1"}


def drawn(title: str, points: list[ChartPoint]) -> ElementTree.Element:
    root = ElementTree.fromstring(chart_svg(title, points))
    assert root.tag == f"{SVG}svg"
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def line_of(root: ElementTree.Element) -> str:
    (line,) = [node for node in root.iter(f"{SVG}path") if node.get("class") == "line"]
    return line.get("d") or ""


def circles(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [node for node in root.iter(f"{SVG}circle") if node.get("class") == kind]


def test_points_of_one_metric_and_row_have_their_alerts() -> None:
    runs = past({"p1": {VIEWS: 10}, "p2": {VIEWS: 1}}, {"p2": {VIEWS: 2}}, {"p1": {VIEWS: 30}})
    runs[2] = replace(runs[2], alerts=[ALERT, {**ALERT, "row_id": "p2"}, {**ALERT, "metric": "total"}])
    assert list(points_of(runs, VIEWS, "p1")) == [
        ChartPoint(FIRST, 10),
        ChartPoint(FIRST + HOUR_S, None),
        ChartPoint(FIRST + 2 * HOUR_S, 30, ("gt: 30",)),
    ]


def test_no_data_alert_belongs_to_every_row() -> None:
    runs = [replace(past({})[0], status="failed", alerts=[{**ALERT, "op": "no_data", "to": None, "row_id": "_"}])]
    assert list(points_of(runs, VIEWS, "p1")) == [ChartPoint(FIRST, None, ("no_data",))]


def test_alerts_of_an_ordinary_monitor_have_no_row() -> None:
    runs = past({"_": {VIEWS: 10}})
    runs[0] = replace(runs[0], alerts=[{key: value for key, value in ALERT.items() if key != "row_id"}])
    assert [point.alerts for point in points_of(runs, VIEWS)] == [("gt: 30",)]


def test_alert_marker_has_a_title_with_the_rule() -> None:
    root = drawn("views", [ChartPoint(FIRST, 10), ChartPoint(FIRST + HOUR_S, 1_500, ("gt: 1.5k",))])
    (marker,) = circles(root, "alert")
    assert "".join(marker.itertext()) == "2027-01-15 09:00 UTC: 1,500; alert gt: 1.5k"
    assert len(circles(root, "dot")) == 1


def test_scale_is_round_and_the_line_has_every_point() -> None:
    root = drawn("views", [ChartPoint(FIRST + place * HOUR_S, 1_000 * place) for place in range(10)])
    assert [text for text in texts(root) if text.endswith("k") or text == "0"] == ["0", "5k", "10k"]
    assert "2027-01-15 08:00 UTC" in texts(root)
    assert line_of(root).count("L") == 9


def test_missing_number_breaks_the_line_and_its_alert_is_a_ring() -> None:
    numbers = [None, 1, 2, None, 4, None, None]
    points = [
        ChartPoint(FIRST + place * HOUR_S, number, ("no_data",) * (place == 3)) for place, number in enumerate(numbers)
    ]
    root = drawn("views", points)
    assert line_of(root).count("M") == 2
    (ring,) = circles(root, "absent")
    assert "".join(ring.itertext()) == "2027-01-15 11:00 UTC: no number; alert no_data"
    assert float(ring.get("cy") or "") == max(float(node.get("y2") or "") for node in root.iter(f"{SVG}line"))
    assert "2027-01-15 09:00 UTC" in texts(root), "the line begins at the first number"


def test_long_title_keeps_its_start_and_end() -> None:
    name = "The monitor of everything " * 8
    (title, *_) = texts(drawn(f"{name}: items[].post.engagement.likes of 8863", []))
    assert len(title) < 90
    assert title.startswith("The monitor of")
    assert title.endswith("engagement.likes of 8863")
    (wide, *_) = texts(drawn("統計" * 60, []))
    assert len(wide) < 45


def test_long_line_has_alerts_but_no_dots() -> None:
    points = [ChartPoint(FIRST + place, place, ("gt: 5",) if place == 500 else ()) for place in range(1_000)]
    root = drawn("views", points)
    assert (len(circles(root, "dot")), len(circles(root, "alert"))) == (0, 1)


@pytest.mark.parametrize("points", [[], [ChartPoint(FIRST, None)], [ChartPoint(FIRST, None, ("no_data",))]])
def test_chart_without_numbers_shows_a_message(points: list[ChartPoint]) -> None:
    assert "No numbers in this window" in texts(drawn("views", points))


def test_chart_has_light_and_dark_colors() -> None:
    assert "prefers-color-scheme:dark" in chart_svg("views", [])


@given(st.text(), st.lists(NUMBER | st.none(), max_size=8), st.text(max_size=5))
@example("largest", [1.7e308, -1.7e308, 5e-324, 0.0], "")
@example("all alike", [1.7e308, 1.7e308], "")
@example("smallest", [5e-324, 0], "")
@example("close", [2**53, 2**53 - 1], "")
def test_chart_is_valid_xml_within_its_frame(title: str, values: list[float | None], alert: str) -> None:
    points = [
        ChartPoint(FIRST + place * HOUR_S, value, (alert,) if place % 2 else ()) for place, value in enumerate(values)
    ]
    root = drawn(title, points)
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx") or "") <= WIDTH
        assert 0 <= float(circle.get("cy") or "") <= HEIGHT
    for text in root.iter(f"{SVG}text"):
        assert 0 <= float(text.get("y") or "") <= HEIGHT


def test_title_is_escaped() -> None:
    picture = chart_svg('"/><script>alert(1)</script>\x00\ud800', [])
    assert "<script" not in picture
    ElementTree.fromstring(picture)
