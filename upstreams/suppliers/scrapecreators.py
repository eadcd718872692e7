"""The interface of scrapecreators.com: JSON over GET, one key, and one credit for most calls."""

from __future__ import annotations

from datetime import date

from upstreams.model.supplier_interface import Interface


def _platform_of(path: str) -> str:
    """Return the platform of a path: `/v1/tiktok/profile` reads TikTok."""
    return "/".join(path.split("/")[2:3])


INTERFACE = Interface(
    name="scrapecreators",
    base_url="https://api.scrapecreators.com",
    headers=lambda key: (("x-api-key", key),),
    docs_url="https://docs.scrapecreators.com",
    terms_url="https://scrapecreators.com/terms",
    checked_on=date(2026, 11, 28),
    succeeded="success",
    absent_words=("not found", "does not exist", "doesn't exist", "no longer available"),
    private_words=("private",),
    charged="credits_charged",
    left="credits_remaining",
    costs={"/v1/tiktok/user/audience": 26},
    group_of=_platform_of,
)
