"""Scientific papers and preprints."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url


def paper(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The paper's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the paper's page."],
    title: Annotated[str | None, "Title of the paper."],
    doi: Annotated[str | None, "Digital object identifier, such as `10.1000/182`."] = None,
    abstract: Annotated[str | None, "The abstract, as plain text."] = None,
    authors: Annotated[list[str] | None, "Names of the authors, in order."] = None,
    journal: Annotated[str | None, "The journal or conference that published the paper."] = None,
    categories: Annotated[list[str] | None, "Subject categories."] = None,
    citations: Annotated[int | None, "Number of papers that cite this paper."] = None,
    pdf_url: Annotated[Url, "URL of the full text as a PDF."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    updated_at: Annotated[Instant, "Time of the latest version."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A scientific paper or preprint."""
    return {
        "id": id,
        "url": url,
        "doi": doi,
        "title": title,
        "abstract": abstract,
        "authors": authors or [],
        "journal": journal,
        "categories": categories or [],
        "citations": citations,
        "pdf_url": pdf_url,
        "published_at": published_at,
        "updated_at": updated_at,
        "ext": ext or {},
    }


PAPER = Archetype("Paper", "paper", paper, lookup_rank=55, roles=(Contract("paper"),))
PAPER_LIST = Archetype(
    "PaperList",
    "paper",
    paper,
    many=True,
    row_kind="item",
    roles=(Contract("paper_search", "search", takes=("query",)),),
)
ARCHETYPES = (PAPER, PAPER_LIST)
