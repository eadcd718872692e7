"""Query parameters and their declaration: parsed values and error messages."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.errors import CORRECT, InvalidParam, Refused
from gateway.http.params import CURSOR, Declared, check_text, declared_by, read_free
from upstreams.model.archetypes import AUTHOR, AUTHOR_LIST
from upstreams.model.endpoint import Endpoint
from upstreams.model.params import Param, limit
from upstreams.model.paths import Within

NAME = Param("name", "A name.", "ada", required=True, length_max=10)
SORT = Param("sort", "Order.", "new", default="new", choices=("new", "old"))
WHOLE = Param("whole", "All of it.", "true", type="boolean")
MOST = Param("most", "At most.", "5", type="integer")
LEAST = Param("least", "At least.", "5", type="integer", minimum=0, maximum=9)
ADDRESS = Param("url", "An address.", "https://a.test/b", type="url")
EITHER, OTHER = Param("either", "One.", "1"), Param("other", "Another.", "2")


def rules(*params: Param, many: bool = False, one_of: tuple[tuple[str, ...], ...] = ()) -> Declared:
    archetype = AUTHOR_LIST if many else AUTHOR
    return declared_by(
        Endpoint(
            resource="x", summary="X.", archetype=archetype, read=lambda _args: iter(()), params=params, one_of=one_of
        )
    )  # type: ignore[arg-type,return-value]


def refused(checked: Declared, query: str) -> dict[str, Any]:
    with pytest.raises(Refused) as refusal:
        checked.read(parse_qsl(query, keep_blank_values=True))
    assert refusal.value.code.name == "INVALID_REQUEST"
    return dict(refusal.value.details or {})


def about(name: str, reason: str = "invalid_param") -> dict[str, object]:
    """The error details for this name."""
    return {"reason": reason, "param": name, "next_step": CORRECT}


def meant(proposed: str, name: str, **more: object) -> dict[str, object]:
    """The error details with a suggestion."""
    return {"did_you_mean": proposed, "param": name, "next_step": CORRECT, **more}


EVERY = (NAME, SORT, WHOLE, LEAST, ADDRESS, limit(50, 20))


def test_values_are_typed_and_defaults_filled_in() -> None:
    query = [("name", "ada"), ("whole", "TRUE"), ("least", "3"), ("url", "https://a.test/%2F"), ("max_credits", "7")]
    assert rules(*EVERY).read(query) == {
        "name": "ada",
        "sort": "new",
        "whole": True,
        "least": 3,
        "url": "https://a.test/%2F",
        "limit": 20,
        "max_credits": 7,
    }


@given(st.sampled_from(["true", "True", "1", "false", "FALSE", "0"]))
def test_booleans_are_words_or_digits(text: str) -> None:
    assert rules(WHOLE).read([("whole", text)])["whole"] is (text.lower() in {"true", "1"})


@given(st.integers(-(10**25), 10**25))
def test_limit_is_capped_and_other_numbers_out_of_bounds_are_rejected(number: int) -> None:
    limited, bounded = rules(limit(50)), rules(LEAST)
    if number < 1:
        assert refused(limited, f"limit={number}") == about("limit")
    else:
        assert limited.read([("limit", str(number))])["limit"] == min(number, 50)
    if 0 <= number <= 9:
        assert bounded.read([("least", str(number))])["least"] == number
    else:
        assert refused(bounded, f"least={number}") == about("least")


@given(st.text(max_size=20))
def test_numbers_are_ascii_digits_only(text: str) -> None:
    query = [("least", text)]
    if text.isascii() and text.isdecimal() and int(text) <= 9:
        assert rules(LEAST).read(query)["least"] == int(text)
    elif text and not text.isspace():
        with pytest.raises(Refused):
            rules(LEAST).read(query)


REFUSALS = {
    "": about("name"),
    "name=": about("name"),
    "name=a&name=b": about("name"),
    "name=abcdefghijk": about("name"),
    "name=a&least=x": about("least"),
    "name=a&least=--1": about("least"),
    "name=a&least=1_0": about("least"),
    "name=a&least=%2B1": about("least"),
    "name=a&whole=yes": about("whole"),
    "name=a&sort=newer": meant("new", "sort"),
    "name=a&sort=zzzz": about("sort"),
    "nam=a": meant("name", "nam", remove_params=["nam"]),
    "name=a&Sort=new": meant("sort", "Sort", remove_params=["Sort"]),
    "name=a&soort=1&leest=2": meant("sort", "soort", remove_params=["soort", "leest"]),
    "name=a&NAMES=b": meant("name", "NAMES", remove_params=["NAMES"]),
    "name=a%00": about("name"),
    "name=%FF": about("name", "invalid_utf8"),
    "name=%EF%BF%BD": about("name", "invalid_utf8"),
    "name=caf%C3": about("name", "invalid_utf8"),
    "name=%C0%AF": about("name", "invalid_utf8"),
    "name=%ED%A0%80": about("name", "invalid_utf8"),
    "name=a%2520b": about("name", "double_encoded"),
    "name=%25C3%25A9": about("name", "double_encoded"),
    "name=a%252Fb": about("name", "double_encoded"),
    "name=a&url=https%253A%252F%252Fa.test%252Fb": about("url", "double_encoded"),
    "name=a&url=HTTP%253A//a.test": about("url", "double_encoded"),
    "name=a&least=1.5": about("least"),
    "name=a&least=%D9%A1": about("least"),
    "name=a&limit=0": about("limit"),
    "name=a&limit=ten": about("limit"),
    "name=a&max_credits=-1": about("max_credits"),
    "name=a&dry_run=perhaps": about("dry_run"),
    "name=a&sort=NEWER": meant("new", "sort"),
}


@pytest.mark.parametrize(("query", "details"), REFUSALS.items(), ids=REFUSALS.keys())
def test_error_names_the_problem(query: str, details: dict[str, object]) -> None:
    assert refused(rules(*EVERY), query) == details


@pytest.mark.parametrize(
    ("query", "param", "problem", "meant", "reason"),
    [
        ("", "name", "is required: A name", None, "invalid_param"),
        ("name=ada&nam=ada", "nam", "Unknown parameter `nam`. Did you mean `name`?", "name", "invalid_param"),
        ("name=ada&sort=newer", "sort", "must be one of new, old", "new", "invalid_param"),
        ("name=ada&sort=zzzzz", "sort", "must be one of new, old", None, "invalid_param"),
        ("name=ada&least=x", "least", "must be a whole number from 0 to 9, such as 5", None, "invalid_param"),
        (f"name=ada&least={'9' * 5000}", "least", "must be at most 9 and at least 0", None, "invalid_param"),
        (f"name=ada&least=-{'9' * 5000}", "least", "must be at least 0 and at most 9", None, "invalid_param"),
        (f"name=ada&most={'9' * 19}", "most", "has more than 18 digits", None, "invalid_param"),
        ("name=%25C3%25A4", "name", "was percent-encoded twice", None, "double_encoded"),
        ("name=%FF", "name", "is not valid UTF-8", None, "invalid_utf8"),
    ],
)
def test_error_has_fields_for_its_parts(query: str, param: str, problem: str, meant: str | None, reason: str) -> None:
    with pytest.raises(InvalidParam) as refusal:
        rules(NAME, SORT, LEAST, MOST).read(parse_qsl(query, keep_blank_values=True))
    rejection = refusal.value
    assert (rejection.param, rejection.problem, rejection.meant, rejection.reason) == (param, problem, meant, reason)
    whole = problem if problem.startswith("Unknown") else f"{param} {problem}"
    assert rejection.message.removesuffix(".") == whole


TAKEN = {
    "a percent sign": ("name=100%25", "100%"),
    "a percent sign before words": ("name=50%25%20off", "50% off"),
    "text that only looks like an escape": ("name=%25zz", "%zz"),
    "an escape that is not UTF-8": ("name=100%25fFoo", "100%fFoo"),
    "letters of any script": ("name=%D7%A9%D7%9C%20%F0%9F%8C%8A", "\u05e9\u05dc \U0001f30a"),
}


@pytest.mark.parametrize(("query", "name"), TAKEN.values(), ids=TAKEN.keys())
def test_value_that_only_looks_double_encoded_is_accepted(query: str, name: str) -> None:
    assert rules(NAME).read(parse_qsl(query, keep_blank_values=True)) == {"name": name}


@pytest.mark.parametrize("address", ["https://a.test/%E5%BE%AE/7", " HTTP://a.test/%C3%A9/7"])
def test_percent_encoded_url_is_accepted_only_where_urls_are(address: str) -> None:
    number = Param("id", "A number.", "7", forms=(r"a\.test/[^/]+/(\d+)",), pattern=r"\d+")
    assert rules(number).read([("id", address)]) == {"id": "7"}
    for name, param in (("id", number), ("name", NAME)):
        encoded = "%37" if name == "id" else "https://a.test/%C3%A9"
        assert refused(rules(param), f"{name}={quote(encoded, safe='')}") == about(name, "double_encoded")


def test_undeclared_parameter_without_value_is_ignored() -> None:
    assert rules(NAME).read(parse_qsl("name=a&page=&x", keep_blank_values=True)) == {"name": "a"}


def test_blank_value_is_treated_as_absent() -> None:
    for blank in ("%20", "+", "%09", "%C2%A0+"):
        assert refused(rules(NAME), f"name={blank}") == about("name")
        assert rules(NAME).read(parse_qsl(f"name=a&page={blank}")) == {"name": "a"}


SINCE, UNTIL = Param("since", "From.", "2024-01-31"), Param("until", "To.", "2024-02-29")


@pytest.mark.parametrize(
    ("since", "until", "is_refused"),
    [
        ("2024-01-31", "2024-01-30", True),
        ("2024-01-31T12:00:00Z", "2024-01-31", True),
        ("2024-01-31T12:00:00%2B02:00", "2024-01-31T11:00:00Z", False),
        ("2024-01-31T12:00:00", "2024-01-31T11:59:59Z", True),
        ("2024-01-31", "2024-01-31", False),
        ("2024-01-31", "2024-02-29", False),
        ("yesterday", "2024-02-29", False),
    ],
)
def test_span_ending_before_its_start_is_rejected(since: str, until: str, is_refused: bool) -> None:
    query = f"since={since}&until={until}"
    if is_refused:
        assert refused(rules(SINCE, UNTIL), query) == about("until")
    else:
        assert rules(SINCE, UNTIL).read(parse_qsl(query)).keys() == {"since", "until"}


def test_no_suggestion_without_declared_parameters() -> None:
    with pytest.raises(Refused, match=r"Unknown parameter `a`\. Valid parameters: none") as refusal:
        read_free([("empty", ""), ("a", "1"), ("b", "2")], ())
    assert refusal.value.details == {**about("a"), "remove_params": ["a", "b"], "param": "a"}


def test_all_parameters_are_listed_if_none_is_similar() -> None:
    with pytest.raises(Refused, match=r"Unknown parameter `zzzz`\. Valid parameters: name, sort, max_credits, dry_run"):
        rules(NAME, SORT).read([("zzzz", "1")])


@pytest.mark.parametrize("name", ["page", "offset", "Page", "START"])
def test_foreign_pagination_name_suggests_cursor(name: str) -> None:
    assert refused(rules(many=True), f"{name}=2")["did_you_mean"] == "cursor"
    assert refused(rules(), f"{name}=2") == {**about(name), "remove_params": [name]}


def test_declared_name_is_not_foreign_pagination() -> None:
    page = Param("page", "A page of a book.", "7", type="integer")
    assert rules(page, many=True).read([("page", "7")])["page"] == 7


@pytest.mark.parametrize(("query", "said"), [("", "none"), ("either=1&other=2", "either and other")])
def test_exactly_one_of_a_group_is_required(query: str, said: str) -> None:
    checked = rules(EITHER, OTHER, one_of=(("either", "other"),))
    assert refused(checked, query) == about("either")
    with pytest.raises(Refused, match=said):
        checked.read(parse_qsl(query))
    assert checked.read([("other", "2"), ("either", "")]) == {"other": "2"}


NUMBERED = Param("id", "A number.", "7", required=True, forms=(r"([a-z]+)\.test/(\d+)",), pattern=r"(?:[a-z]+/)?\d+")
SITE = Param("site", "A site.", "one", default="one")
AT_SITES = declared_by(
    Endpoint(
        resource="x",
        summary="X.",
        archetype=AUTHOR,
        read=lambda _args: iter(()),
        params=(SITE,),
        located=Within(SITE, NUMBERED),
    )  # type: ignore[arg-type,return-value]
)


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("id=7", {"id": "7", "site": "one"}),
        ("id=7&site=two", {"id": "7", "site": "two"}),
        ("id=https://two.test/7", {"id": "7", "site": "two"}),
        ("id=https://two.test/7&site=two", {"id": "7", "site": "two"}),
    ],
)
def test_url_also_sets_its_site(query: str, values: dict[str, str]) -> None:
    assert AT_SITES.read(parse_qsl(query)) == values


@pytest.mark.parametrize("site", ["one", "three"])
def test_url_and_another_site_conflict(site: str) -> None:
    assert refused(AT_SITES, f"id=https://two.test/7&site={site}") == about("site")


def test_free_read_accepts_only_its_own_parameters() -> None:
    assert read_free([("cursor", "c")], (CURSOR,)) == {"cursor": "c"}
    with pytest.raises(Refused):
        read_free([("max_credits", "1")], (CURSOR,))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufffd%"), max_size=40))
def test_single_encoding_is_accepted_and_double_encoding_rejected(text: str) -> None:
    check_text("name", text)
    encoded = quote(text, safe="")
    if encoded != text:
        with pytest.raises(Refused) as refusal:
            check_text("name", encoded)
        assert refusal.value.details == about("name", "double_encoded")
        check_text("url", f"https://a.test/?q={encoded}", is_url=True)
