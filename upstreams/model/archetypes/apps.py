"""Apps in stores, and user reviews."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Of, Record, Url, nests


@nests(
    developer="The app's developer.",
    price="The price in one country.",
    rating="The average rating.",
    installs="The number of installations, often rounded down.",
)
def app(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The app's ID in the store."],  # noqa: A002 - the field's own name
    store: Annotated[str | None, "The store that sells the app: app_store or steam."],
    url: Annotated[Url, "URL of the app's page in the store."] = None,
    title: Annotated[str | None, "Title of the app."] = None,
    subtitle: Annotated[str | None, "The short text below the title."] = None,
    description: Annotated[str | None, "The store's description, as plain text."] = None,
    icon: Annotated[Url, "URL of the icon, or of the header image of the store page."] = None,
    image_urls: Annotated[list[str] | None, "URLs of the screenshots."] = None,
    developer_id: Annotated[str | None, "The developer's ID in the store."] = None,
    developer_name: Annotated[str | None, "The developer's name."] = None,
    developer_url: Annotated[Url, "URL of the developer's page in the store."] = None,
    developer_website: Annotated[str | None, "The developer's website."] = None,
    category: Annotated[str | None, "The primary genre."] = None,
    categories: Annotated[list[str] | None, "All genres and categories of the app."] = None,
    price: Annotated[float | None, "The current price, in whole units of the currency; 0 is free."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    price_displayed: Annotated[str | None, "The price as the store displays it."] = None,
    is_free: Annotated[bool | None, "Whether the app is free."] = None,
    rating: Annotated[float | None, "The average rating."] = None,
    rating_max: Annotated[int | None, "The highest possible rating."] = None,
    rating_count: Annotated[int | None, "Number of ratings."] = None,
    reviews_count: Annotated[int | None, "Number of written reviews or recommendations."] = None,
    installs: Annotated[int | None, "Number of installations."] = None,
    installs_displayed: Annotated[str | None, "The number as the store displays it, such as `1,000+`."] = None,
    version: Annotated[str | None, "The current version."] = None,
    size: Annotated[int | None, "Download size in bytes."] = None,
    minimum_os_version: Annotated[str | None, "The oldest supported version of the operating system."] = None,
    languages: Annotated[list[str] | None, "Supported languages, as the store writes them."] = None,
    released_at: Annotated[Instant, "Time of the first release."] = None,
    updated_at: Annotated[Instant, "Time of the current version's release."] = None,
    update_notes: Annotated[str | None, "The changes in the current version."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """An app in a store."""
    return {
        "id": id,
        "store": store,
        "url": url,
        "title": title,
        "subtitle": subtitle,
        "description": description,
        "icon": icon,
        "image_urls": image_urls or [],
        "developer": {
            "id": developer_id, "name": developer_name, "url": developer_url, "website": developer_website,
        },
        "category": category,
        "categories": categories or [],
        "price": {"current": price, "currency": currency, "displayed": price_displayed, "is_free": is_free},
        "rating": {"value": rating, "max": rating_max, "count": rating_count},
        "reviews_count": reviews_count,
        "installs": {"display": installs_displayed, "count": installs},
        "version": version,
        "size": size,
        "minimum_os_version": minimum_os_version,
        "languages": languages or [],
        "released_at": released_at,
        "updated_at": updated_at,
        "update_notes": update_notes,
        "ext": ext or {},
    }  # fmt: skip


def reviewer(
    *,
    id: Annotated[str | None, "The account's ID on the platform."],  # noqa: A002 - the field's own name
    name: Annotated[str | None, "Display name of the account."] = None,
    url: Annotated[Url, "URL of the account's page."] = None,
    reviews_count: Annotated[int | None, "Number of reviews that the account wrote."] = None,
) -> Record:
    """The author of a review, limited to the fields shown in a row."""
    return locals()


def review_response(
    *,
    id: Annotated[str | None, "The response's ID on the platform."],  # noqa: A002 - the field's own name
    author: Annotated[str | None, "Name of the person or company that responded."] = None,
    text: Annotated[str | None, "The response, as plain text."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
) -> Record:
    """A public response to a review, for example by the seller."""
    return locals()


@nests(rating="The reviewer's rating.")
def review(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The review's ID on the platform."],  # noqa: A002 - the field's own name
    entity_id: Annotated[str | None, "ID of the reviewed app, product or place."],
    url: Annotated[Url, "URL of the review."] = None,
    title: Annotated[str | None, "Title of the review."] = None,
    text: Annotated[str | None, "Text of the review, as plain text."] = None,
    rating: Annotated[float | None, "The rating; a recommendation is 1 out of 1."] = None,
    rating_max: Annotated[int | None, "The highest possible rating."] = None,
    author: Annotated[Record | None, Of(reviewer), "The reviewer's account."] = None,
    helpful_votes: Annotated[
        int | None, "Number of helpful votes, minus unhelpful votes if the platform counts both."
    ] = None,
    verified: Annotated[bool | None, "Whether the platform confirms the purchase or the visit."] = None,
    source: Annotated[str | None, "The website that the review comes from, if the platform names one."] = None,
    image_urls: Annotated[list[str] | None, "URLs of the reviewer's pictures."] = None,
    responses: Annotated[list[Record] | None, Of(review_response), "Public responses to the review."] = None,
    language: Annotated[str | None, "The language that the platform states for the review."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A review of an app, a product or a place."""
    return {
        "id": id,
        "entity_id": entity_id,
        "url": url,
        "title": title,
        "text": text,
        "rating": {"value": rating, "max": rating_max},
        "author": author,
        "helpful_votes": helpful_votes,
        "verified": verified,
        "source": source,
        "images": image_urls or [],
        "responses": responses or [],
        "language": language,
        "published_at": published_at,
        "ext": ext or {},
    }


APP = Archetype("App", "app", app, kind="profile", lookup_rank=20, roles=(Contract("app"),))
APP_LIST = Archetype(
    "AppList", "app", app, many=True, row_kind="item", roles=(Contract("app_search", "search", takes=("query",)),)
)
REVIEW_LIST = Archetype(
    "ReviewList",
    "review",
    review,
    many=True,
    kind="comments",
    roles=(Contract("app_reviews", of="app"), Contract("product_reviews", "{product}/reviews", of="product")),
)
ARCHETYPES = (APP, APP_LIST, REVIEW_LIST)
