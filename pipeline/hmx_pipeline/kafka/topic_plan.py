"""Topic plan: compares topic files with the cluster's topics. Pure.

Enters: `TopicSpec`s and a `ClusterState`. Leaves: a `TopicPlan` of creations, changes, refusals and notes. It never
deletes topics and never raises; forbidden changes are `Refusal`s.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hmx_pipeline.topology import EVENTS

REPLICAS = 3
PARTITIONS = "partitions"
MIN_INSYNC = "min.insync.replicas"
UNLIMITED = "-1"
NAMESPACE = "hmx."


class _Strict(BaseModel):
    """Rejects unknown keywords, so that a misspelt setting is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TopicConfig(_Strict):
    """Broker settings owned by a topic file, with `_` for `.`; the first block is mandatory."""

    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "."))

    cleanup_policy: Literal["delete", "compact"]
    retention_ms: Annotated[int, Field(ge=-1)]
    retention_bytes: Annotated[int, Field(ge=-1)]
    compression_type: Literal["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]
    max_message_bytes: Annotated[int, Field(gt=0)]
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"]

    message_timestamp_after_max_ms: Annotated[int | None, Field(ge=0)] = None
    segment_bytes: Annotated[int | None, Field(gt=0)] = None
    segment_ms: Annotated[int | None, Field(gt=0)] = None
    delete_retention_ms: Annotated[int | None, Field(ge=0)] = None
    min_cleanable_dirty_ratio: Annotated[float | None, Field(ge=0, le=1)] = None
    max_compaction_lag_ms: Annotated[int | None, Field(gt=0)] = None

    def entries(self) -> dict[str, str]:
        """Returns the settings in the broker's spelling."""
        return {name: str(value) for name, value in self.model_dump(by_alias=True, exclude_none=True).items()}


OWNED = tuple(name.replace("_", ".") for name in TopicConfig.model_fields)
"""Settings owned by topic files; all others on a topic are left alone."""


class ValueSchema(_Strict):
    """The schema of a topic's values; `bytes` means none."""

    name: Annotated[str, Field(alias="schema", min_length=1)]
    version: Annotated[str, Field(min_length=1)]
    compatibility: Literal["backward", "none"]


class TopicExample(_Strict):
    """One record: JSON values as an object, raw bytes as text."""

    key: str
    value: dict[str, Any] | str
    headers: dict[str, str] = {}


class TopicSpec(_Strict):
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=249)]
    description: Annotated[str, Field(min_length=1)]
    key: Annotated[str, Field(min_length=1)]
    value: ValueSchema
    producers: Annotated[list[str], Field(min_length=1)]
    consumers: Annotated[list[str], Field(min_length=1)]
    partitions: Annotated[int, Field(gt=0)]
    keyed: bool
    """Whether keys decide the partition, so the partition count must never change."""
    partitions_as: str | None = None
    """The topic whose partition numbers this one repeats."""
    dlq: str | None = None
    config: TopicConfig
    example: TopicExample | None = None

    @property
    def namespace(self) -> str:
        return self.topic.partition(NAMESPACE)[0] + NAMESPACE


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic in the cluster. `config` holds effective values, `overridden` the names set on the topic itself."""

    partitions: int
    replicas: int
    config: Mapping[str, str]
    overridden: frozenset[str]
    empty: bool
    """Nothing was ever written to it."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    brokers: int
    topics: Mapping[str, TopicState]
    others: frozenset[str] = frozenset()
    """Names of all other topics."""


@dataclass(frozen=True, slots=True)
class Creation:
    topic: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """A change of one setting; `new` None restores the broker's default."""

    topic: str
    setting: str
    old: str
    new: str | None


@dataclass(frozen=True, slots=True)
class Refusal:
    change: SettingChange
    reason: str


@dataclass(frozen=True, slots=True)
class Note:
    """A difference that this tool does not change."""

    topic: str
    text: str


class PlanVerdict(StrEnum):
    CLEAN = "clean"
    PENDING = "pending"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    creations: tuple[Creation, ...] = ()
    changes: tuple[SettingChange, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
    specs: tuple[TopicSpec, ...] = field(default=(), repr=False, compare=False)
    """What was compared."""

    @property
    def verdict(self) -> PlanVerdict:
        if self.refusals:
            return PlanVerdict.REFUSED
        return PlanVerdict.PENDING if self.creations or self.changes else PlanVerdict.CLEAN

    @property
    def topics(self) -> frozenset[str]:
        """Topics that the plan changes."""
        return frozenset(item.topic for item in self.creations) | frozenset(item.topic for item in self.changes)


def sized(specs: Iterable[TopicSpec], cluster: ClusterState, partitions: int = 0) -> tuple[TopicSpec, ...]:
    """Returns the topics with as many times their files' partitions as the log has, once it exists: `hmx topics grow`
    has made more, a small stack fewer. `partitions`: of a log that does not exist yet; 0 for its file's. A log without
    any setting of its own was made by a broker itself, and tells nothing."""
    specs = tuple(specs)
    for spec in specs:
        state = cluster.topics.get(spec.topic)
        if spec.topic.endswith(EVENTS) and (state is None or state.overridden):
            count = state.partitions if state is not None else partitions or spec.partitions
            sizes = [max(1, each.partitions * count // spec.partitions) for each in specs]
            return tuple(each.model_copy(update={"partitions": size}) for each, size in zip(specs, sizes, strict=True))
    return specs


def plan(specs: Iterable[TopicSpec], cluster: ClusterState, *, allow_shrink: bool = False) -> TopicPlan:
    """Computes the difference. `allow_shrink` permits shorter retention, which deletes records."""
    specs = tuple(specs)
    creations: list[Creation] = []
    changes: list[SettingChange] = []
    refusals: list[Refusal] = []
    for spec in specs:
        state = cluster.topics.get(spec.topic)
        if state is None:
            creations.append(_creation(spec, cluster.brokers))
            continue
        for change in _differences(spec, state):
            reason = _refused(spec, state, change, allow_shrink)
            if reason:
                refusals.append(Refusal(change, reason))
            else:
                changes.append(change)
    return TopicPlan(tuple(creations), tuple(changes), tuple(refusals), tuple(_notes(specs, cluster)), specs)


def _creation(spec: TopicSpec, brokers: int) -> Creation:
    replicas = min(REPLICAS, brokers)
    return Creation(spec.topic, spec.partitions, replicas, _wanted(spec, replicas))


def _wanted(spec: TopicSpec, replicas: int) -> dict[str, str]:
    """Adds min.insync.replicas by the topic's own replicas: 2 with a single replica would refuse every record."""
    return {**spec.config.entries(), MIN_INSYNC: "2" if replicas >= REPLICAS else "1"}


def _differences(spec: TopicSpec, state: TopicState) -> Iterator[SettingChange]:
    if spec.partitions != state.partitions:
        yield SettingChange(spec.topic, PARTITIONS, str(state.partitions), str(spec.partitions))
    wanted = _wanted(spec, state.replicas)
    for setting, new in wanted.items():
        old = state.config.get(setting, "")
        if old != new:
            yield SettingChange(spec.topic, setting, old, new)
    for setting in OWNED:
        if setting not in wanted and setting in state.overridden:
            yield SettingChange(spec.topic, setting, state.config[setting], None)


def _refused(spec: TopicSpec, state: TopicState, change: SettingChange, allow_shrink: bool) -> str | None:
    """Returns why a change is forbidden, or None. Topics without records may be changed freely."""
    match change.setting:
        case "partitions" if spec.keyed or spec.partitions_as:
            return "keys would move to other partitions: `hmx topics grow` makes a generation with more"
        case "partitions" if spec.partitions < state.partitions:
            return "Kafka cannot remove partitions"
        case "cleanup.policy" if not state.empty:
            return "would delete records or keep keys for ever; create a new topic version"
        case "message.timestamp.type" if not state.empty:
            return "existing records carry the other timestamp; create a new topic version"
        case "retention.ms" | "retention.bytes" if not (state.empty or allow_shrink) and _shrinks(change):
            return "deletes records; add --allow-shrink to permit it"
        case _:
            return None


def _shrinks(change: SettingChange) -> bool:
    if change.new == UNLIMITED:
        return False
    return change.old == UNLIMITED or int(change.new or 0) < int(change.old or 0)


def _notes(specs: tuple[TopicSpec, ...], cluster: ClusterState) -> Iterator[Note]:
    for spec in specs:
        state = cluster.topics.get(spec.topic)
        if state and state.replicas < min(REPLICAS, cluster.brokers):
            yield Note(spec.topic, f"has {state.replicas} of {min(REPLICAS, cluster.brokers)} replicas: reassign it")
    namespaces = tuple({spec.namespace for spec in specs})
    for name in sorted(cluster.others):
        if name.startswith(namespaces):
            yield Note(name, "has no topic file; it is kept, since topics are never deleted here")
