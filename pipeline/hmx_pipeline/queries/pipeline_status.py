"""Pipeline status from Kafka, Redis and the processes: the data of `hmx status` and the page.

Enters: settings and health addresses, as far as known. Leaves: values for JSON and tables. Raises what reading Kafka
and Redis raises.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeVar

from hmx_pipeline.contracts.effects import Effect
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.observe.process_reader import gauges, histogram, readiness
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import SESSIONS

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

Json = dict[str, Any]
T = TypeVar("T")
WAITING: Final = "hmx_partition_waiting"
STATE: Final = "hmx_partition_state_records"
SET_ASIDE: Final = "hmx_partition_set_aside"
STAGE_FRESHNESS: Final = "hmx_stage_freshness_seconds"
MEMORY_FRESHNESS: Final = "hmx_materialiser_freshness_seconds"
_ADVICE: Final = {str(reason): reason.advice for reason in Reason}
_MEANING: Final = {str(effect): effect.meaning for effect in Effect}


def explained(ask: Callable[[], T]) -> T | str:
    """Returns the answer, or the error as text, since status is asked most when parts are down."""
    from confluent_kafka import KafkaException

    from hmx_pipeline.kafka.topic_files import TopicsError
    from hmx_pipeline.settings import SettingsError
    from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TornStateError

    try:
        return ask()
    except KafkaException as error:
        return f"Kafka does not answer: {error.args[0].str()}"
    except (TopicsError, StoreUnavailableError, TornStateError, TimeoutError, SettingsError) as error:
        return str(error)


def counted(stages: Mapping[str, Json]) -> dict[str, list[Json]]:
    """Returns the stages' counters since the log began, with meanings: outcomes in log order, then rejections and
    other effects, the most frequent first."""
    source = stages.get(SESSIONS.name, {"counts": {}, "partitions": []})
    outcomes = {outcome: source["counts"].get(outcome, 0) for outcome in Outcome}
    outcomes[Outcome.WAITING] = sum(row["waiting"] or 0 for row in source["partitions"])
    rejections: Counter[str] = Counter()
    effects: Counter[str] = Counter()
    for stage in stages.values():
        for name, count in stage["counts"].items():
            kind, _, reason = name.partition(".")
            if kind == Outcome.REJECTED and reason:
                rejections[reason] += count
            elif kind not in outcomes:
                effects[name] += count
    return {
        "outcomes": [{"name": name, "count": n, "meaning": name.meaning} for name, n in outcomes.items()],
        "rejections": [{"name": name, "count": n, "meaning": _ADVICE.get(name, "")} for name, n in ranked(rejections)],
        "effects": [{"name": name, "count": n, "meaning": _MEANING.get(name, "")} for name, n in ranked(effects)],
    }


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def processes(health: Mapping[str, str]) -> dict[str, Json]:
    """Returns process → readiness and message."""
    answers = {name: readiness(address) for name, address in health.items()}
    return {name: {"ready": ready, "said": said} for name, (ready, said) in answers.items()}


def freshness(samples: "Sequence[Sample]") -> dict[str, list[tuple[float, int]]]:
    """Returns histograms of seconds from append to commit by stage, and to Redis as `memory`, summed over processes."""
    memory = histogram(samples, MEMORY_FRESHNESS).get("", [])
    found = {**histogram(samples, STAGE_FRESHNESS), "memory": memory}
    return {name: counts for name, counts in found.items() if counts}


def stages(settings: Settings, samples: "Sequence[Sample]") -> dict[str, Json]:
    """Returns each stage's counters and partitions. Waiting counts are known if the worker's metrics are in
    `samples`."""
    from hmx_pipeline.kafka.clients import Cluster
    from hmx_pipeline.kafka.consumer_lag import ConsumerLag, owners
    from hmx_pipeline.kafka.preflight import existing_topics
    from hmx_pipeline.kafka.topic_files import UnfitTopicError
    from hmx_pipeline.runtime.stored_positions import stored_position
    from hmx_pipeline.topology import STAGES

    partitions = existing_topics(settings, *(topic for stage in STAGES for topic in (stage.source, stage.state)))
    kafka, prefix = settings.require_kafka(), settings.topic_prefix
    owned = owners(settings)
    live = gauges(samples, WAITING, STATE, SET_ASIDE)
    found: dict[str, Json] = {}
    with closing(Cluster(kafka)) as cluster, closing(ConsumerLag(kafka, prefix)) as unread:
        for stage in STAGES:
            counts: Counter[str] = Counter()
            at: dict[tuple[str, int], int] = {}
            unreadable = set()
            for partition in range(partitions[stage.state]):
                try:
                    position = stored_position(cluster, stage, prefix, partition)
                except UnfitTopicError:
                    position = None
                    unreadable.add(partition)
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
                    "set_aside": place[1] in unreadable or live.get((SET_ASIDE, stage.name, place[1]), 0) > 0,
                }
                for place, each in behind.items()
            ]
            lag = sum(row["lag"] for row in rows)
            found[stage.name] = {"lag": lag, "counts": dict(sorted(counts.items())), "partitions": rows}
    return found


def completeness(settings: Settings) -> Json:
    """Returns whether memory is complete, and how far it is loaded."""
    from hmx_pipeline.store.fetch import Store

    found = Store.open(settings).completeness()
    return {"complete": found.complete, "percent": found.percent, "said": str(found)}


def tenants(settings: Settings) -> Json:
    """Returns the tenants that have memory."""
    from hmx_pipeline.store.fetch import Store

    return {"tenants": Store.open(settings).tenants()}


def memory(settings: Settings) -> dict[str, Json]:
    """Returns topic/partition → position and lag of Redis."""
    from hmx_pipeline.kafka.consumer_lag import ConsumerLag
    from hmx_pipeline.store.fetch import Store
    from hmx_pipeline.topology import MATERIALISED

    at = Store.open(settings).positions()
    with closing(ConsumerLag(settings.require_kafka(), settings.topic_prefix)) as unread:
        behind = unread.behind({place: at.get("{}/{}".format(*place), 0) for place in unread.places(MATERIALISED)})
    return {
        each.where: {"position": each.position, "lag": each.records, "lag_seconds": round(each.seconds, 1)}
        for each in behind.values()
    }


def _live(live: Mapping[tuple[str, str, int], float], name: str, stage: str, partition: int) -> int | None:
    value = live.get((name, stage, partition))
    return int(value) if value is not None else None
