"""Ads in the public ad libraries of platforms."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url, nests


@nests(
    advertiser="The account that advertises.",
    impressions="How often the ad was shown, as a range.",
    spend="The advertiser's expenses, as a range.",
)
def ad(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The ad's ID in the library."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the ad in the library."],
    advertiser_id: Annotated[str | None, "The advertiser's ID on the platform."] = None,
    advertiser_name: Annotated[str | None, "Name of the advertiser."] = None,
    advertiser_url: Annotated[Url, "URL of the advertiser's page."] = None,
    title: Annotated[str | None, "Headline of the ad."] = None,
    text: Annotated[str | None, "Text of the ad, as plain text."] = None,
    media_urls: Annotated[list[str] | None, "URLs of images and videos."] = None,
    call_to_action: Annotated[str | None, "Label of the button, such as `Sign up`."] = None,
    landing_url: Annotated[Url, "URL of the page that the ad leads to."] = None,
    format: Annotated[str | None, "Format of the ad, such as image, video or carousel."] = None,  # noqa: A002 - the field's own name
    platforms: Annotated[list[str] | None, "The apps and sites that showed the ad."] = None,
    regions: Annotated[list[str] | None, "The countries or regions in which the ad was shown."] = None,
    status: Annotated[str | None, "Whether the ad is shown now, as the library writes it."] = None,
    first_shown_at: Annotated[Instant, "Time at which the ad was first shown."] = None,
    last_shown_at: Annotated[Instant, "Time at which the ad was last shown."] = None,
    impressions_min: Annotated[int | None, "The lowest possible number."] = None,
    impressions_max: Annotated[int | None, "The highest possible number."] = None,
    spend_min: Annotated[float | None, "The lowest possible amount, in whole units of the currency."] = None,
    spend_max: Annotated[float | None, "The highest possible amount, in whole units of the currency."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """An ad in a library of ads."""
    return {
        "id": id,
        "url": url,
        "advertiser": {"id": advertiser_id, "name": advertiser_name, "url": advertiser_url},
        "title": title,
        "text": text,
        "media_urls": media_urls or [],
        "call_to_action": call_to_action,
        "landing_url": landing_url,
        "format": format,
        "platforms": platforms or [],
        "regions": regions or [],
        "status": status,
        "first_shown_at": first_shown_at,
        "last_shown_at": last_shown_at,
        "impressions": {"min": impressions_min, "max": impressions_max},
        "spend": {"min": spend_min, "max": spend_max, "currency": currency},
        "ext": ext or {},
    }


AD = Archetype("Ad", "ad", ad, lookup_rank=58, roles=(Contract("ad"),))
AD_LIST = Archetype(
    "AdList", "ad", ad, many=True, row_kind="item", roles=(Contract("ad_search", "search", takes=("query",)),)
)
ARCHETYPES = (AD, AD_LIST)
