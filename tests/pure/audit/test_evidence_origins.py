"""Evidence without its origin: all of it is counted, the first of it is kept."""

from collections.abc import Iterator

from hmx_pipeline.audit.partition_report import VIOLATIONS_KEPT, ViolationKind
from hmx_pipeline.audit.pipeline_conservation import Report, _count_evidence
from hmx_pipeline.audit.source_rows import Row
from hmx_pipeline.contracts.headers import KIND


class Evidence:
    """A log of contributions that name no origin."""

    def __init__(self, count: int) -> None:
        self.count = count

    def rows(self, topic: str, partition: int) -> Iterator[Row]:
        for offset in range(self.count):
            yield Row(0, offset, 0, b"k", b"{}", [(KIND, b"contribution")])


def test_evidence_without_its_origin_is_counted_and_the_first_of_it_kept() -> None:
    report = Report([])
    _count_evidence(Evidence(VIOLATIONS_KEPT + 5), 0, report)  # type: ignore[arg-type]
    assert report.faults[ViolationKind.NAMELESS] == VIOLATIONS_KEPT + 5
    assert len(report.violations) == VIOLATIONS_KEPT
    assert not report.conserved
