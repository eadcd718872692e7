"""Merged metrics: no sample is lost or repeated, and labels keep any characters."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gateway.node.workers.admin import merge


def text_of(counts: dict[str, int], depth: float) -> str:
    """Return the metrics of a worker with these counts."""
    registry = CollectorRegistry()
    counter = Counter("asked", "How often.", ["what"], registry=registry)
    for what, count in counts.items():
        counter.labels(what).inc(count)
    Gauge("depth", "How deep.", registry=registry).set(depth)
    Histogram("took", "How long.", buckets=(1, 2), registry=registry).observe(depth)
    return generate_latest(registry).decode()


def samples_of(text: str) -> dict[tuple[str, ...], float]:
    """Return every sample by name and labels."""
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


counted = st.dictionaries(st.text(alphabet='ab{}",= \\\n#', max_size=6), st.integers(0, 9), max_size=3)


@given(st.dictionaries(st.integers(0, 255), st.tuples(counted, st.floats(0, 9)), min_size=1, max_size=4))
def test_merged_metrics_label_every_sample(workers: dict[int, tuple[dict[str, int], float]]) -> None:
    texts = {number: text_of(*counters) for number, counters in workers.items()}
    whole = merge(texts)
    expected = {}
    for number, text in texts.items():
        for (name, *labels), value in samples_of(text).items():
            expected[name, *sorted([*labels, f"worker={number}"], key=lambda label: label.partition("=")[0])] = value
    assert samples_of(whole) == expected
    headings = [line for line in whole.splitlines() if line.startswith("# TYPE")]
    assert len(headings) == len(set(headings))


def test_merged_metrics_without_workers_are_empty() -> None:
    assert merge({}) == ""
