"""Models of machine learning."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url


def model(
    *,
    id: Annotated[str | None, "The model's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the model's page."],
    name: Annotated[str | None, "Name of the model."],
    author: Annotated[str | None, "Username of the account that published the model."] = None,
    task: Annotated[str | None, "The task of the model, such as `text-generation`."] = None,
    library: Annotated[str | None, "The software library that runs the model."] = None,
    license: Annotated[str | None, "License of the model, as the platform writes it."] = None,  # noqa: A002 - the field's own name
    tags: Annotated[list[str] | None, "Tags of the model."] = None,
    downloads: Annotated[int | None, "Number of downloads, in the period that the platform counts."] = None,
    likes: Annotated[int | None, "Number of likes."] = None,
    gated: Annotated[bool | None, "Whether the author must approve access."] = None,
    updated_at: Annotated[Instant, "Time of the last change."] = None,
) -> Record:
    """A model of machine learning."""
    tags = tags or []
    return locals()


MODEL = Archetype("Model", "model", model, lookup_rank=56, roles=(Contract("model"),))
MODEL_LIST = Archetype(
    "ModelList",
    "model",
    model,
    many=True,
    row_kind="item",
    roles=(Contract("model_search", "search", takes=("query",)),),
)
ARCHETYPES = (MODEL, MODEL_LIST)
