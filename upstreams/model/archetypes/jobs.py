"""Job openings."""

from __future__ import annotations

from typing import Annotated

from upstreams.model.archetypes.shape import Archetype, Contract, Instant, Record, Url, nests


@nests(company="The employer.", salary="The salary, as a range.")
def job(  # noqa: PLR0913 - one argument per field of the archetype
    *,
    id: Annotated[str | None, "The job's ID on the platform."],  # noqa: A002 - the field's own name
    url: Annotated[Url, "URL of the job opening."],
    title: Annotated[str | None, "Title of the job."],
    company_id: Annotated[str | None, "The company's ID on the platform."] = None,
    company_name: Annotated[str | None, "Name of the company."] = None,
    company_url: Annotated[Url, "URL of the company's page."] = None,
    location: Annotated[str | None, "The main location, as the platform writes it."] = None,
    locations: Annotated[list[str] | None, "All locations, as the platform writes them."] = None,
    remote: Annotated[bool | None, "Whether the job can be done entirely from elsewhere."] = None,
    employment_type: Annotated[str | None, "Type of employment, such as full-time or internship."] = None,
    department: Annotated[str | None, "Department of the company."] = None,
    experience_level: Annotated[str | None, "Required experience, as the platform writes it."] = None,
    salary_min: Annotated[float | None, "The lowest salary, in whole units of the currency."] = None,
    salary_max: Annotated[float | None, "The highest salary, in whole units of the currency."] = None,
    currency: Annotated[str | None, "ISO 4217 code of the currency."] = None,
    salary_period: Annotated[str | None, "The period that the salary covers: hour, day, week, month or year."] = None,
    description: Annotated[str | None, "Description of the job, as plain text."] = None,
    apply_url: Annotated[Url, "URL of the application form."] = None,
    published_at: Annotated[Instant, "Time of publication."] = None,
    updated_at: Annotated[Instant, "Time of the last change."] = None,
    ext: Annotated[Record | None, "Data that only this platform provides."] = None,
) -> Record:
    """A job opening."""
    return {
        "id": id,
        "url": url,
        "title": title,
        "company": {"id": company_id, "name": company_name, "url": company_url},
        "location": location,
        "locations": locations or [],
        "remote": remote,
        "employment_type": employment_type,
        "department": department,
        "experience_level": experience_level,
        "salary": {"min": salary_min, "max": salary_max, "currency": currency, "period": salary_period},
        "description": description,
        "apply_url": apply_url,
        "published_at": published_at,
        "updated_at": updated_at,
        "ext": ext or {},
    }


JOB = Archetype("Job", "job", job, lookup_rank=59, roles=(Contract("job"),))
JOB_LIST = Archetype(
    "JobList", "job", job, many=True, row_kind="item", roles=(Contract("job_search", "search", takes=("query",)),)
)
ARCHETYPES = (JOB, JOB_LIST)
