"""What a process answers about itself, asked over HTTP by somebody else.

Enters: where its health is served. Leaves: whether it is ready and why not; its gauges by partition. No answer is an
answer too.
"""

import http.client
import urllib.error
import urllib.request
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

ANSWER_S: Final = 5.0
NO_ANSWER: Final = "no answer"


def readiness(address: str) -> tuple[bool, str]:
    try:
        return True, _get(f"{address}/readyz")
    except urllib.error.HTTPError as error:
        return False, error.read().decode(errors="replace").strip()
    except (OSError, http.client.HTTPException):
        return False, NO_ANSWER


def gauges(address: str, *names: str) -> dict[tuple[str, str, int], float]:
    """(name, stage, partition) → value."""
    try:
        text = _get(f"{address}/metrics")
    except (OSError, http.client.HTTPException):
        return {}
    return {
        (sample.name, sample.labels["stage"], int(sample.labels["partition"])): sample.value
        for family in text_string_to_metric_families(text)
        if family.name in names
        for sample in family.samples
    }


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:  # noqa: S310  http only: addresses of our own
        return str(answer.read().decode(errors="replace")).strip()
