"""Jobs of the web and files that are read as pages, for their readers (decisions 17 and 21)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from gateway.docs.account.fields import Instant, meaning, shown
from gateway.docs.account.webhooks.deliveries import DeliveryDocs, LoggedView
from gateway.http.routing import RouteDoc

JobId = Annotated[str, meaning("The job.", "job_01a1fd7328fd7bba92988ba98f5dc154")]
_UNKNOWN: Final = "RESOURCE_NOT_FOUND/unknown_job"
_UNKNOWN_DELIVERY: Final = "RESOURCE_NOT_FOUND/unknown_delivery"
_OVER: Final = "INVALID_REQUEST/job_over"


class JobProgress(TypedDict):
    """The steps of a job in numbers; all but `planned` add up to it."""

    planned: Annotated[int, meaning("All that are planned by now.", 12)]
    done: Annotated[int, meaning("Those with a result.", 10)]
    empty: Annotated[int, meaning("Those that nobody has, or that robots may not read.", 1)]
    failed: Annotated[int, meaning("Those that their source failed to give.", 1)]
    pending: Annotated[int, meaning("Those to come.", 0)]
    skipped: Annotated[int, meaning("Those that were not made any more.", 0)]


class JobCredits(TypedDict):
    """The money of a job. Once it has ended, `used` and `refunded` add up to `reserved`."""

    reserved: Annotated[int, meaning("The most that it costs, held until it ends.", 100)]
    used: Annotated[int, meaning("The price of what is done.", 10)]
    refunded: Annotated[int, meaning("The rest, given back at the end.", 90)]


class JobLinks(TypedDict):
    """Where to read on."""

    job: Annotated[str, meaning("The job.", "https://api.example.com/v1/web/jobs/job_01a1")]
    results: Annotated[str, meaning("Its results.", "https://api.example.com/v1/web/jobs/job_01a1/results")]
    errors: Annotated[str, meaning("What did not come.", "https://api.example.com/v1/web/jobs/job_01a1/errors")]
    deliveries: Annotated[
        str, meaning("What was delivered to its webhook.", "https://api.example.com/v1/web/jobs/job_01a1/deliveries")
    ]


class JobData(TypedDict):
    """A job as it stands."""

    job_id: JobId
    kind: Literal["crawl", "batch-scrape"]
    status: Annotated[
        Literal["queued", "running", "paused", "completed", "partial", "failed", "cancelled"], shown("partial")
    ]
    stopped_because: Annotated[
        str | None, meaning("The code of why it ended or waits, where its steps do not say.", "owner")
    ]
    progress: JobProgress
    credits: JobCredits
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    links: JobLinks


class JobBegun(JobData):
    """A job that was begun."""

    webhook_secret: Annotated[
        str | None, meaning("The secret of its webhook, shown this once; null where it has none.", "whsec_...")
    ]


class JobDeliveriesData(TypedDict):
    """A page of deliveries: one, once the job has ended."""

    items: list[LoggedView]


class JobDeliveryData(TypedDict):
    """One delivery."""

    delivery: LoggedView


class JobsData(TypedDict):
    """A page of jobs, newest first."""

    items: list[JobData]


class JobResult(TypedDict):
    """A page of the web that a job has read."""

    number: Annotated[int, meaning("Its place among all steps.", 1)]
    depth: Annotated[int, meaning("How many links it is from the first page.", 0)]
    url: Annotated[str, meaning("Its address.", "https://example.com/")]
    fetched_at: Instant
    credits_used: Annotated[int, meaning("Its price.", 1)]
    page: Annotated[dict[str, Any], meaning("The page, as `web/scrape` answers it.", {"url": "https://example.com/"})]
    _warnings: NotRequired[list[str]]


class JobResultsData(TypedDict):
    """A page of results, in the order in which the job came to them."""

    items: list[JobResult]


class JobError(TypedDict):
    """A page that did not come."""

    number: Annotated[int, meaning("Its place among all steps.", 1)]
    url: Annotated[str, meaning("Its address.", "https://example.com/gone")]
    status: Literal["empty", "failed"]
    error: Annotated[str, meaning("The code or the reason.", "RESOURCE_NOT_FOUND")]
    at: Instant


class JobErrorsData(TypedDict):
    """A page of what did not come."""

    items: list[JobError]


class JobDryRun(TypedDict):
    """The price of a job, which was not begun."""

    estimated_credits: Annotated[int, meaning("The most that it would cost.", 100)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/job_limit_reached",
)
_NOTES: Final = (
    "The most that it may cost is reserved at once; a page is paid for when it has come, and the rest goes back at the "
    "end. After a crash the job goes on with the first page that it has not read.",
    "Few pages of one host are read at a time, and robots are obeyed.",
)


def _begins(name: str, summary: str, kind: str, label: str) -> RouteDoc:
    return RouteDoc(
        name,
        summary,
        JobBegun,
        status=202,
        platform="web",
        reasons=_REASONS,
        once=True,
        notes=_NOTES,
        price=(1, label, "One for each page that came."),
        billing_rules=(
            "A page that does not come costs 0 credits.",
            "What was reserved and not used is refunded automatically.",
        ),
        gives={"job_id": "/data/job_id"},
        sample={"kind": kind},
        dry_run=JobDryRun,
    )


CRAWL: Final = _begins("crawl", "Read the pages of a site, link by link.", "crawl", "1-10000 credits, metered")
BATCH: Final = _begins("batch_scrape", "Read up to 1,000 pages.", "batch-scrape", "1-1000 credits, metered")
LIST: Final = RouteDoc("list_jobs", "The account's jobs, newest first.", JobsData, platform="web")
SHOW: Final = RouteDoc("get_job", "One job as it stands.", JobData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_job",
    "Pause a job, or let it go on.",
    JobData,
    platform="web",
    reasons=(_UNKNOWN, _OVER),
    notes=("What is under way when it is paused is read again.",),
)
CANCEL: Final = RouteDoc(
    "cancel_job",
    "End a job: what has come stays and is paid for, the rest goes back.",
    JobData,
    platform="web",
    reasons=(_UNKNOWN, _OVER),
)
RESULTS: Final = RouteDoc(
    "job_results",
    "The pages that a job has read so far, in its order.",
    JobResultsData,
    platform="web",
    reasons=(_UNKNOWN,),
)
LINES: Final = RouteDoc(
    "job_results_lines",
    "All pages that a job has read so far, a line of JSON each.",
    platform="web",
    form="application/x-ndjson",
    reasons=(_UNKNOWN,),
)
ERRORS: Final = RouteDoc(
    "job_errors", "The pages that did not come, and why.", JobErrorsData, platform="web", reasons=(_UNKNOWN,)
)
LOG: Final = DeliveryDocs(
    RouteDoc(
        "list_job_deliveries",
        "The delivery of a job's end with its attempts.",
        JobDeliveriesData,
        platform="web",
        reasons=(_UNKNOWN,),
    ),
    RouteDoc(
        "get_job_delivery",
        "One delivery of a job with its attempts.",
        JobDeliveryData,
        platform="web",
        reasons=(_UNKNOWN, _UNKNOWN_DELIVERY),
    ),
    RouteDoc(
        "redeliver_job",
        "Deliver the end of a job again.",
        JobDeliveryData,
        status=202,
        platform="web",
        once=True,
        reasons=(_UNKNOWN, _UNKNOWN_DELIVERY, "INVALID_REQUEST/attempts_limit_reached"),
    ),
)


class ParsedData(TypedDict):
    """The file that was read."""

    page: Annotated[dict[str, Any], meaning("The file as a page, as `web/scrape` answers it.", {"source_type": "html"})]


class FileQuote(TypedDict):
    """The price of a file, which was not read."""

    estimated_credits: Annotated[int, meaning("Its price.", 1)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


PARSE: Final = RouteDoc(
    "parse",
    "Read a file as a page is read: HTML, a PDF, a feed or text.",
    ParsedData,
    platform="web",
    dry_run=FileQuote,
    reasons=(
        "INSUFFICIENT_CREDITS/balance_too_low",
        "INSUFFICIENT_CREDITS/above_max_credits",
        "KEY_BUDGET_EXCEEDED/key_budget_reached",
        "UPSTREAM_ERROR",
        "UNSUPPORTED_MEDIA_TYPE/not_a_form",
        "INVALID_REQUEST/unsupported_content",
        "INVALID_REQUEST/empty",
        "INVALID_REQUEST/unreadable_file",
        "RESOURCE_NOT_FOUND/page_too_costly",
        "INVALID_REQUEST/capability_missing",
    ),
    once=True,
    notes=(
        "A file is at most 10 MB long. Its type is the one that `mime_type` says, or its part of the form; else its "
        "name and its first bytes tell it. A file that cannot be read costs nothing.",
    ),
    price=(1, "1 credit", "One for a file that was read."),
    billing_rules=("A file that cannot be read costs 0 credits.",),
)
