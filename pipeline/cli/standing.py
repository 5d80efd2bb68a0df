"""How the pipeline stands, asked of Kafka, Redis and its processes: what `hmx status` shows.

Enters: settings, and where processes answer for their health, as far as that is known. Leaves: values for JSON and for
tables. Fails as reading Kafka and Redis does.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from pipeline.observe.asked import gauges, readiness
from pipeline.settings import Settings

Json = dict[str, Any]
WAITING: Final = "hmx_partition_waiting"
STATE: Final = "hmx_partition_state_records"


def processes(health: Mapping[str, str]) -> dict[str, Json]:
    """By name, whether it is ready and what it says."""
    answers = {name: readiness(address) for name, address in health.items()}
    return {name: {"ready": ready, "said": said} for name, (ready, said) in answers.items()}


def stages(settings: Settings, health: Mapping[str, str]) -> dict[str, Json]:
    """Of each stage what it has counted, and how each of its partitions stands."""
    from pipeline.kafka.clients import Cluster
    from pipeline.kafka.group import owners
    from pipeline.kafka.positions import stored_positions
    from pipeline.kafka.reach import existing_topics
    from pipeline.kafka.unread import Unread
    from pipeline.topology import STAGES

    existing_topics(settings, *(topic for stage in STAGES for topic in (stage.source, stage.state)))
    bootstrap, prefix = settings.require_kafka(), settings.topic_prefix
    owned = owners(settings)
    live = gauges(health["worker"], WAITING, STATE) if "worker" in health else {}
    found: dict[str, Json] = {}
    with closing(Cluster(bootstrap)) as cluster, closing(Unread(bootstrap, prefix)) as unread:
        for stage in STAGES:
            counts: Counter[str] = Counter()
            at: dict[tuple[str, int], int] = {}
            for partition, position in enumerate(stored_positions(cluster, stage, prefix)):
                at[stage.source, partition] = position.position if position is not None else 0
                counts.update(position.counts if position is not None else {})
            behind = unread.behind(at)
            rows: list[Json] = [
                {
                    "partition": place[1],
                    "position": each.position,
                    "lag": each.records,
                    "lag_seconds": round(each.seconds, 1),
                    "waiting": _live(live, WAITING, stage.name, place[1]),
                    "state": _live(live, STATE, stage.name, place[1]),
                    "owner": owned.get(place),
                }
                for place, each in behind.items()
            ]
            lag = sum(row["lag"] for row in rows)
            found[stage.name] = {"lag": lag, "counts": dict(sorted(counts.items())), "partitions": rows}
    return found


def memory(settings: Settings) -> dict[str, Json]:
    """topic/partition → how far Redis has read it."""
    from pipeline.kafka.unread import Unread
    from pipeline.store.fetch import Store
    from pipeline.topology import MATERIALISED

    at = Store.open(settings).positions()
    with closing(Unread(settings.require_kafka(), settings.topic_prefix)) as unread:
        behind = unread.behind({place: at.get("{}/{}".format(*place), 0) for place in unread.places(MATERIALISED)})
    return {
        each.where: {"position": each.position, "lag": each.records, "lag_seconds": round(each.seconds, 1)}
        for each in behind.values()
    }


def _live(live: Mapping[tuple[str, str, int], float], name: str, stage: str, partition: int) -> int | None:
    value = live.get((name, stage, partition))
    return int(value) if value is not None else None
