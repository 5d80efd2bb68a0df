"""Probe client: reads /readyz and /metrics of other processes over HTTP.

Enters: an address. Leaves: readiness with a reason; metric samples by partition, histograms. Never raises for a missing
answer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hmx_mcp.http_question import SilentServiceError, ask_over_http

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

ANSWER_S: Final = 5.0
NO_ANSWER: Final = "no answer"
OK: Final = 200


def readiness(address: str) -> tuple[bool, str]:
    try:
        status, said = _get(address, "/readyz")
    except SilentServiceError:
        return False, NO_ANSWER
    return status == OK, said


def figures(addresses: Iterable[str]) -> "list[Sample]":
    """Returns all samples of the processes that answer."""
    from prometheus_client.parser import text_string_to_metric_families

    found: list[Sample] = []
    for address in addresses:
        try:
            status, said = _get(address, "/metrics")
        except SilentServiceError:
            continue
        if status == OK:
            found += (sample for family in text_string_to_metric_families(said) for sample in family.samples)
    return found


def gauges(samples: "Iterable[Sample]", *names: str) -> dict[tuple[str, str, int], float]:
    """Returns (name, stage, partition) → value."""
    return {
        (sample.name, sample.labels["stage"], int(sample.labels["partition"])): sample.value
        for sample in samples
        if sample.name in names
    }


def histogram(samples: "Sequence[Sample]", name: str) -> dict[str, list[tuple[float, int]]]:
    """Returns stage (or "") → cumulative buckets (upper bound, count), summed over processes."""
    found: dict[str, Counter[float]] = {}
    for sample in samples:
        if sample.name == f"{name}_bucket":
            found.setdefault(sample.labels.get("stage", ""), Counter())[float(sample.labels["le"])] += int(sample.value)
    return {stage: sorted(counts.items()) for stage, counts in found.items()}


def _get(address: str, path: str) -> tuple[int, str]:
    status, said = ask_over_http(address, "GET", path, timeout_s=ANSWER_S)
    return status, said.decode(errors="replace").strip()
