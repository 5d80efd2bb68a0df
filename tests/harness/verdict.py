"""What a run has come to: what the verifier finds in the topics, and whether Kafka kept what it had acknowledged.

What was erased, or a policy takes, must be found nowhere any more. Enters: the site at rest, the traffic's
acknowledgements, and what the operators did. Leaves: a `Verdict`.
"""

from contextlib import closing
from dataclasses import dataclass, field

from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.harness.archived import archive_faults
from tests.harness.leaks import leaks
from tests.harness.operators import Operators
from tests.harness.producer import Acknowledged, Place, digest
from tests.harness.site import Site
from tests.verifier import Rules, compare
from tests.verifier.log import read
from tests.verifier.rules import SESSION_STATE

SHOWN = 200


@dataclass
class Verdict:
    lost: int = 0
    doubled: int = 0
    differing: int = 0
    missing: int = 0
    """Acknowledged to the producer, and not in the log."""
    leaked: int = 0
    """Places that still hold what was erased, and receipts that are not genuine."""
    retained: int = 0
    """Places that still hold what a tenant's policies take."""
    grown: int = 0
    """What is wrong with the generation of more partitions that the log was copied to."""
    fallen: int = 0
    """How often a process ended that no fault had ended, fenced workers aside: by a segmentation fault, say."""
    erased: int = 0
    """Subjects, sessions and tenants."""
    receipts: int = 0
    policies: int = 0
    """Tenants that forgot by a policy."""
    ruled: dict[str, int] = field(default_factory=dict)
    records: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    details: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        found = (self.lost, self.doubled, self.differing, self.missing, self.leaked, self.retained)
        return not any((*found, self.grown, self.fallen))


def judge(site: Site, acknowledged: Acknowledged, operators: Operators, *, stays: bool = False) -> Verdict:
    """The site is stopped once all of it is read, unless it `stays`."""
    settings = site.settings
    snapshot = read(settings.kafka_bootstrap, settings.topic_prefix, settings.redis_url)
    missing = acknowledged.missing(_log(settings))
    found = [
        *leaks(site, snapshot, operators.erased),
        *archive_faults(site, snapshot, [*operators.erased, *operators.retained]),
    ]
    kept = list(leaks(site, snapshot, operators.retained, SESSION_STATE))  # for a day after a session's last event
    if not stays:
        site.stop()
    report = compare(snapshot, Rules(settings.control_key))
    return Verdict(
        lost=report.lost,
        doubled=report.doubled,
        differing=report.differing,
        missing=len(missing),
        leaked=len(found),
        retained=len(kept),
        erased=len(operators.erased),
        receipts=sum(one.receipt is not None for one in operators.erased),
        policies=len(operators.retained),
        ruled=dict(operators.ruled),
        records=report.records,
        outcomes=dict(sorted(report.outcomes.items())),
        details=[
            *map(str, report.faults[:SHOWN]),
            *(f"acknowledged and missing: {at}" for at in missing[:SHOWN]),
            *(f"erased and still there: {place}" for place in found[:SHOWN]),
            *(f"beyond policy: {place}" for place in kept[:SHOWN]),
        ],
    )


def _log(settings: Settings) -> dict[Place, int]:
    topic = settings.topic_prefix + EVENTS
    held: dict[Place, int] = {}
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        for partition in range(cluster.topic(topic).partitions):
            marks = cluster.watermarks(topic, partition)
            for message in read_partition(settings.kafka_bootstrap, topic, partition, marks):
                value: bytes | None = message.value()
                held[partition, message.offset() or 0] = digest(value)
    return held
