"""Roles follow from the archetypes and resources of a platform's endpoints."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from upstreams.model.archetypes import ARCHETYPES, Archetype
from upstreams.model.roles import CONTRACTS, casting


@dataclass(frozen=True, slots=True)
class Offered:
    """The attributes of an endpoint that determine its role."""

    resource: str
    archetype: Archetype
    role: str | None = None


def cast(*rows: tuple[str, str] | tuple[str, str, str]) -> dict[str, str]:
    """Return the resource of each role, for endpoints given as resource, archetype and declared role."""
    found = casting([Offered(row[0], ARCHETYPES[row[1]], *row[2:]) for row in rows])
    return {role: one.resource for role, one in found.items()}


def test_reviews_belong_to_the_apps_or_products_of_a_platform() -> None:
    assert cast(("app", "App"), ("app/reviews", "ReviewList")) == {"app": "app", "app_reviews": "app/reviews"}
    assert cast(("product", "Product"), ("product/reviews", "ReviewList")) == {
        "product": "product",
        "product_reviews": "product/reviews",
    }
    assert cast(("reviews", "ReviewList")) == {}


def test_placeholder_is_the_resource_of_another_role() -> None:
    rows = ("video", "Post"), ("video/comments", "CommentList"), ("video/comment/replies", "CommentList")
    assert cast(*rows) == {"post": "video", "comments": rows[1][0], "replies": rows[2][0]}
    assert cast(*rows[1:]) == {}


def test_declared_role_comes_before_the_usual_resource() -> None:
    rows = ("search", "JobList"), ("search/all", "JobList", "job_search")
    assert cast(*rows) == {"job_search": "search/all"}
    assert cast(rows[0]) == {"job_search": "search"}


def test_declared_role_needs_no_other_role() -> None:
    assert cast(("offers", "SellerList", "sellers")) == {"sellers": "offers"}


@pytest.mark.parametrize("role", CONTRACTS)
def test_roles_that_others_need_come_first(role: str) -> None:
    order, contract = list(CONTRACTS), CONTRACTS[role]
    needed = {*re.findall(r"\{(\w+)\}", contract.resource), *filter(None, (contract.of,))}
    assert all(order.index(one) < order.index(role) for one in needed)
    assert contract.needs_others is bool(needed)
