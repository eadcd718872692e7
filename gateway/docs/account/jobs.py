"""Reference texts for web jobs and for files parsed as pages (decisions 17 and 21)."""

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
    """The steps of a job by status. The other fields add up to `planned`."""

    planned: Annotated[int, meaning("Steps planned so far.", 12)]
    done: Annotated[int, meaning("Steps with a result.", 10)]
    empty: Annotated[int, meaning("Pages that do not exist or that robots.txt disallows.", 1)]
    failed: Annotated[int, meaning("Steps whose source failed.", 1)]
    pending: Annotated[int, meaning("Steps not started yet.", 0)]
    skipped: Annotated[int, meaning("Steps that will not be run.", 0)]


class JobCredits(TypedDict):
    """The credits of a job. Once it has ended, `used` plus `refunded` equals `reserved`."""

    reserved: Annotated[int, meaning("The maximum cost, reserved until the job ends.", 100)]
    used: Annotated[int, meaning("The price of the finished steps.", 10)]
    refunded: Annotated[int, meaning("Unused credits, refunded when the job ends.", 90)]


class JobLinks(TypedDict):
    """URLs related to the job."""

    job: Annotated[str, meaning("The URL of the job.", "https://api.example.com/v1/web/jobs/job_01a1")]
    results: Annotated[str, meaning("The URL of its results.", "https://api.example.com/v1/web/jobs/job_01a1/results")]
    errors: Annotated[
        str, meaning("The URL of its failed pages.", "https://api.example.com/v1/web/jobs/job_01a1/errors")
    ]
    deliveries: Annotated[
        str, meaning("The URL of its webhook deliveries.", "https://api.example.com/v1/web/jobs/job_01a1/deliveries")
    ]


class JobData(TypedDict):
    """The current state of a job."""

    job_id: JobId
    kind: Literal["crawl", "batch-scrape"]
    status: Annotated[
        Literal["queued", "running", "paused", "completed", "partial", "failed", "cancelled"], shown("partial")
    ]
    stopped_because: Annotated[
        str | None, meaning("The reason code, if the job's steps do not show why it ended or waits.", "owner")
    ]
    progress: JobProgress
    credits: JobCredits
    created_at: Instant
    started_at: Instant | None
    finished_at: Instant | None
    links: JobLinks


class JobBegun(JobData):
    """A job that was started."""

    webhook_secret: Annotated[
        str | None, meaning("The secret of its webhook, shown only once; null without a webhook.", "whsec_...")
    ]


class JobDeliveriesData(TypedDict):
    """A page of deliveries. A job has one delivery, sent when it ends."""

    items: list[LoggedView]


class JobDeliveryData(TypedDict):
    """One delivery."""

    delivery: LoggedView


class JobsData(TypedDict):
    """A page of jobs, newest first."""

    items: list[JobData]


class JobResult(TypedDict):
    """A web page that a job has read."""

    number: Annotated[int, meaning("Its position among all steps.", 1)]
    depth: Annotated[int, meaning("The number of links from the first page.", 0)]
    url: Annotated[str, meaning("The URL of the page.", "https://example.com/")]
    fetched_at: Instant
    credits_used: Annotated[int, meaning("The price of the page.", 1)]
    page: Annotated[dict[str, Any], meaning("The page, as `web/scrape` returns it.", {"url": "https://example.com/"})]
    _warnings: NotRequired[list[str]]


class JobResultsData(TypedDict):
    """A page of results, in the order in which the job read them."""

    items: list[JobResult]


class JobError(TypedDict):
    """A page that could not be read."""

    number: Annotated[int, meaning("Its position among all steps.", 1)]
    url: Annotated[str, meaning("The URL of the page.", "https://example.com/gone")]
    status: Literal["empty", "failed"]
    error: Annotated[str, meaning("The error code or the reason.", "RESOURCE_NOT_FOUND")]
    at: Instant


class JobErrorsData(TypedDict):
    """A page of the list of failed pages."""

    items: list[JobError]


class JobDryRun(TypedDict):
    """The price of a job, without starting it."""

    estimated_credits: Annotated[int, meaning("The maximum cost of the job.", 100)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


_REASONS: Final = (
    "INSUFFICIENT_CREDITS/balance_too_low",
    "INSUFFICIENT_CREDITS/above_max_credits",
    "KEY_BUDGET_EXCEEDED/key_budget_reached",
    "INVALID_REQUEST/job_limit_reached",
)
_NOTES: Final = (
    "The maximum cost is reserved when the job starts. Each page is billed when it has been read, and the rest is "
    "refunded at the end. After a crash, the job resumes with the first unread page.",
    "Only a few pages of one host are read at a time, and robots.txt is respected.",
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
        price=(1, label, "1 for each page that was read."),
        billing_rules=(
            "A page that cannot be read costs 0 credits.",
            "Reserved credits that are not used are refunded automatically.",
        ),
        gives={"job_id": "/data/job_id"},
        sample={"kind": kind},
        dry_run=JobDryRun,
    )


CRAWL: Final = _begins("crawl", "Read the pages of a site by following its links.", "crawl", "1-10000 credits, metered")
BATCH: Final = _begins("batch_scrape", "Read up to 1,000 web pages.", "batch-scrape", "1-1000 credits, metered")
LIST: Final = RouteDoc("list_jobs", "The account's jobs, newest first.", JobsData, platform="web")
SHOW: Final = RouteDoc("get_job", "The current state of a job.", JobData, platform="web", reasons=(_UNKNOWN,))
CHANGE: Final = RouteDoc(
    "change_job",
    "Pause or resume a job.",
    JobData,
    platform="web",
    reasons=(_UNKNOWN, _OVER),
    notes=("Pages in progress when the job is paused are read again.",),
)
CANCEL: Final = RouteDoc(
    "cancel_job",
    "Cancel a job. Pages that were read stay and are billed; the rest is refunded.",
    JobData,
    platform="web",
    reasons=(_UNKNOWN, _OVER),
)
RESULTS: Final = RouteDoc(
    "job_results",
    "The pages that a job has read so far, in order.",
    JobResultsData,
    platform="web",
    reasons=(_UNKNOWN,),
)
LINES: Final = RouteDoc(
    "job_results_lines",
    "All pages that a job has read so far, as JSON lines.",
    platform="web",
    form="application/x-ndjson",
    reasons=(_UNKNOWN,),
)
ERRORS: Final = RouteDoc(
    "job_errors", "The pages that could not be read, and why.", JobErrorsData, platform="web", reasons=(_UNKNOWN,)
)
LOG: Final = DeliveryDocs(
    RouteDoc(
        "list_job_deliveries",
        "The delivery for a finished job, with its attempts.",
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
        "Resend the delivery for a finished job.",
        JobDeliveryData,
        status=202,
        platform="web",
        once=True,
        reasons=(_UNKNOWN, _UNKNOWN_DELIVERY, "INVALID_REQUEST/attempts_limit_reached"),
    ),
)


class ParsedData(TypedDict):
    """The parsed file."""

    page: Annotated[dict[str, Any], meaning("The file as a page, as `web/scrape` returns it.", {"source_type": "html"})]


class FileQuote(TypedDict):
    """The price of a file, without reading it."""

    estimated_credits: Annotated[int, meaning("The price of the file.", 1)]
    would_hit_cache: Annotated[bool, meaning("Always false.")]


PARSE: Final = RouteDoc(
    "parse",
    "Parse a file (HTML, PDF, feed or text) as if it were a web page.",
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
        "A file is at most 10 MB. Its type is `mime_type`, or the type of its form part; otherwise it is detected from "
        "the file's name and first bytes. A file that cannot be read costs nothing.",
    ),
    price=(1, "1 credit", "1 for a file that was read."),
    billing_rules=("A file that cannot be read costs 0 credits.",),
)
