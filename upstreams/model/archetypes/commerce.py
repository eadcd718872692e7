"""Products in shops, and the offers of their sellers."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Of, Record, Url, nests


def specification(
    *,
    group: Annotated[str | None, "Heading above the specification."],
    name: Annotated[str | None, "Name of the property, such as `Weight`."] = None,
    value: Annotated[str | None, "The property's value, as the shop writes it."] = None,
) -> Record:
    """One technical property of a product."""
    return locals()


def variation(
    *,
    id: Annotated[str | None, "The variation's ID in the shop."],  # noqa: A002 - the field's own name
    name: Annotated[str | None, "The choices that make the variation, such as `Blue, XL`."] = None,
    price: Annotated[float | None, "The price, in whole units of the product's currency."] = None,
    availability: Annotated[str | None, "Availability, as the shop writes it."] = None,
) -> Record:
    """A variation of a product, such as a size or color."""
    return locals()


@nests(price="The price in one country.", rating="The average rating.")
def product(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The product's ID in the shop."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the product's page."],
    title: Annotated[str | None, "Title of the product."],
    description: Annotated[str | None, "Description of the product, as plain text."] = None,
    seller: Annotated[str | None, "Name of the seller."] = None,
    brand: Annotated[str | None, "Name of the brand."] = None,
    price: Annotated[float | None, "The current price, in whole units of the currency."] = None,
    price_original: Annotated[float | None, "The price without the current discount."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    rating: Annotated[float | None, "The average rating."] = None,
    rating_count: Annotated[int | None, "Number of ratings."] = None,
    image_urls: Annotated[list[str] | None, "URLs of pictures."] = None,
    availability: Annotated[str | None, "Availability, as the shop writes it."] = None,
    reviews_count: Annotated[int | None, "Number of written reviews."] = None,
    specifications: Annotated[list[Record] | None, Of(specification), "Technical properties."] = None,
    variations: Annotated[list[Record] | None, Of(variation), "Variations, such as sizes and colors."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A product in a shop, or an item on a marketplace."""
    return {
        "id": id,
        "url": url,
        "title": title,
        "description": description,
        "seller": seller,
        "brand": brand,
        "price": {"current": price, "original": price_original, "currency": currency},
        "rating": {"average": rating, "count": rating_count},
        "image_urls": image_urls or [],
        "availability": availability,
        "reviews_count": reviews_count,
        "specifications": specifications or [],
        "variations": variations or [],
        "ext": ext or {},
    }


@nests(price="The price of the offer.", rating="The average rating of the seller.")
def seller(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The seller's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the offer or of the seller's page."],
    name: Annotated[str | None, "Name of the seller."],
    price: Annotated[float | None, "The current price, in whole units of the currency."] = None,
    shipping: Annotated[float | None, "Shipping cost."] = None,
    price_total: Annotated[float | None, "The price with shipping."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    rating: Annotated[float | None, "The average rating."] = None,
    rating_max: Annotated[int | None, "The highest possible rating."] = None,
    rating_count: Annotated[int | None, "Number of ratings."] = None,
    condition: Annotated[str | None, "Condition of the product, such as new or used."] = None,
    availability: Annotated[str | None, "Availability, as the seller writes it."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A seller's offer of a product."""
    return {
        "id": id,
        "name": name,
        "url": url,
        "price": {"current": price, "shipping": shipping, "total": price_total, "currency": currency},
        "rating": {"value": rating, "max": rating_max, "count": rating_count},
        "condition": condition,
        "availability": availability,
        "ext": ext or {},
    }


PRODUCT = Archetype("Product", "product", product, lookup_rank=12, roles=(Contract("product"),))
PRODUCT_LIST = Archetype(
    "ProductList",
    "product",
    product,
    many=True,
    row_kind="item",
    roles=(Contract("product_search", "search", takes=("query",)),),
)
SELLER = Archetype("Seller", "seller", seller)
SELLER_LIST = Archetype("SellerList", "seller", seller, many=True, roles=(Contract("sellers", of="product"),))
ARCHETYPES = (PRODUCT, PRODUCT_LIST, SELLER, SELLER_LIST)
