"""Apps of stores, and the reviews that their users write."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Instant, Of, Record, Url, nests


@nests(developer="Who made it.", price="The price in one country.", rating="The mean of all ratings.")
def app(  # noqa: PLR0913 - one argument a field of the archetype
    *,
    id: Annotated[str | None, "The store's own id of the app."],  # noqa: A002 - the field's own name
    store: Annotated[str | None, "The store that sells it: app_store, steam."],
    url: Annotated[Url, "Its page in the store."] = None,
    title: Annotated[str | None, "Its name."] = None,
    description: Annotated[str | None, "The words that the store shows, as plain text."] = None,
    icon: Annotated[Url, "The address of its icon, or of the picture at the head of its page."] = None,
    image_urls: Annotated[list[str] | None, "The addresses of its screenshots."] = None,
    developer_id: Annotated[str | None, "The store's own id of the developer."] = None,
    developer_name: Annotated[str | None, "The developer's name."] = None,
    developer_url: Annotated[Url, "The developer's page in the store."] = None,
    developer_website: Annotated[str | None, "The website that the developer names."] = None,
    category: Annotated[str | None, "The genre that it is filed under first."] = None,
    categories: Annotated[list[str] | None, "All genres and categories of it."] = None,
    price: Annotated[float | None, "The price now, in whole units of the currency; 0 is free."] = None,
    currency: Annotated[str | None, "The currency, as ISO 4217 names it."] = None,
    price_displayed: Annotated[str | None, "The price as the store writes it."] = None,
    is_free: Annotated[bool | None, "Whether it costs nothing."] = None,
    rating: Annotated[float | None, "The mean."] = None,
    rating_max: Annotated[int | None, "The best that can be given."] = None,
    rating_count: Annotated[int | None, "How many rated it."] = None,
    reviews_count: Annotated[int | None, "How many wrote a review or a recommendation."] = None,
    version: Annotated[str | None, "The version that is sold now."] = None,
    size: Annotated[int | None, "The bytes of a download."] = None,
    minimum_os_version: Annotated[str | None, "The oldest system that it runs on."] = None,
    languages: Annotated[list[str] | None, "The languages that it speaks, as the store writes them."] = None,
    released_at: Annotated[Instant, "The time of its first release."] = None,
    updated_at: Annotated[Instant, "The time of this version's release."] = None,
    update_notes: Annotated[str | None, "What this version changed."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One app in a store."""
    return {
        "id": id,
        "store": store,
        "url": url,
        "title": title,
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
    id: Annotated[str | None, "The platform's own id of the account."],  # noqa: A002 - the field's own name
    name: Annotated[str | None, "The name that it shows."] = None,
    url: Annotated[Url, "Its page."] = None,
    reviews_count: Annotated[int | None, "Reviews that it wrote."] = None,
) -> Record:
    """The author of a review, as far as a row tells."""
    return locals()


@nests(rating="The reviewer's verdict.")
def review(
    *,
    id: Annotated[str | None, "The platform's own id of the review."],  # noqa: A002 - the field's own name
    entity_id: Annotated[str | None, "The id of what is reviewed."],
    url: Annotated[Url, "Its page."] = None,
    title: Annotated[str | None, "Its title."] = None,
    text: Annotated[str | None, "Its words, as plain text."] = None,
    rating: Annotated[float | None, "The verdict; 1 of 1 is a recommendation."] = None,
    rating_max: Annotated[int | None, "The best that can be given."] = None,
    author: Annotated[Record | None, Of(reviewer), "The account that wrote it."] = None,
    helpful_votes: Annotated[int | None, "Votes that found it helpful, less all others where both count."] = None,
    language: Annotated[str | None, "The language that it says it is in."] = None,
    published_at: Annotated[Instant, "The time of its publication."] = None,
    ext: Annotated[Record | None, "More that this platform alone tells."] = None,
) -> Record:
    """One review of an app, a product or a place."""
    return {
        "id": id,
        "entity_id": entity_id,
        "url": url,
        "title": title,
        "text": text,
        "rating": {"value": rating, "max": rating_max},
        "author": author,
        "helpful_votes": helpful_votes,
        "language": language,
        "published_at": published_at,
        "ext": ext or {},
    }


APP = Archetype("App", "app", app)
APP_LIST = Archetype("AppList", "app", app, many=True)
REVIEW_LIST = Archetype("ReviewList", "review", review, many=True)
