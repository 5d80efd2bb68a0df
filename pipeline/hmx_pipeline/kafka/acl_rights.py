"""Which rights on a cluster each process needs, and no more: computed from the topology.

Enters: a process, the installation's prefix. Leaves: `Right`s, in Kafka's words; as commands; as YAML for Strimzi.
Fails with MissingRightsError, which names those that a running process lacks.

Kafka grants Describe with Read, Write, Delete and Alter, and DescribeConfigs with AlterConfigs, so they are not asked
for beside these.
"""

import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import yaml
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient

from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.topic_files import ANSWER_S, KafkaRefusedError, connect, explained, settled
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.topology import (
    EVENTS,
    FOLLOWED,
    GROUP,
    GROW_ID,
    LETTERS_ID,
    MATERIALISED,
    OURS,
    RESTORE_ID,
    SHADOWS,
    STAGES,
)

ANY: Final = ""
"""In the place of a partition: the transactional ids of all of them."""


class Right(NamedTuple):
    kind: str
    """topic, group or transactionalId"""
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False
    """All names that begin so."""

    def __str__(self) -> str:
        what = "transactional id" if self.kind == "transactionalId" else self.kind
        return f"{' and '.join(self.operations)} on {what} {self.name}{'…' if self.prefixed else ''}"


class MissingRightsError(KafkaRefusedError):
    pass


def rights(process: str, prefix: str = "") -> list[Right]:
    """`process`: one of PROCESSES."""
    return sorted(PROCESSES[process](prefix))


def _topics(
    prefix: str, *, read: Iterable[str] = (), write: Iterable[str] = (), also: Iterable[str] = ()
) -> set[Right]:
    """`also`: topics whose configuration is looked at."""
    read, write, also = set(read), set(write), set(also)
    wanted = (("Read", read), ("Write", write), ("DescribeConfigs", also))
    return {
        Right("topic", prefix + topic, tuple(operation for operation, topics in wanted if topic in topics))
        for topic in read | write | also
    }


_SOURCES: Final = {stage.source for stage in STAGES}
_STATES: Final = {stage.state for stage in STAGES}


def _named(prefix: str) -> Right:
    """Every reader asks where the group is that it names."""
    return Right("group", prefix + GROUP, ("Describe",))


def _worker(prefix: str) -> set[Right]:
    """Ticks, barriers and rerouted records are appended to the sources."""
    written = {topic for stage in STAGES for topic in (stage.source, stage.state, stage.dead_letters, *stage.outputs)}
    return {
        *_topics(prefix, read=_SOURCES | _STATES, write=written, also=_SOURCES),
        *(Right("transactionalId", stage.transactional_id(prefix, ANY), ("Write",), prefixed=True) for stage in STAGES),
        Right("group", prefix + GROUP, ("Read",)),
    }


def _materialiser(prefix: str) -> set[Right]:
    return {*_topics(prefix, read=MATERIALISED), _named(prefix)}


def _service(prefix: str) -> set[Right]:
    """It shows where the stages stand, and appends barriers and what comes over HTTP."""
    read = {*MATERIALISED, *FOLLOWED, *_SOURCES, *_STATES}
    return {*_topics(prefix, read=read, write=[EVENTS]), _named(prefix)}


def _publisher(prefix: str) -> set[Right]:
    return _topics(prefix, write=[EVENTS])


def _operator(prefix: str) -> set[Right]:
    """Creates topics and changes them, audits, replays into topics of its own, rebuilds state, sends letters back,
    restores a backup: the offsets that retention had deleted are deleted again; fills a generation with more
    partitions, whose prefix this then is."""
    shadows = ("Create", "Delete", "Read", "Write", "DescribeConfigs")
    topics = ("Create", "Delete", "Alter", "AlterConfigs", "Read", "Write")
    return {
        Right("topic", prefix + OURS, topics, prefixed=True),
        Right("topic", prefix + SHADOWS, shadows, prefixed=True),
        *(Right("transactionalId", prefix + name, ("Write",)) for name in (LETTERS_ID, RESTORE_ID, GROW_ID)),
        *(Right("transactionalId", stage.transactional_id(prefix, ANY), ("Write",), prefixed=True) for stage in STAGES),
        _named(prefix),
        Right("group", prefix + GROW_ID, ("Read",)),
    }


PROCESSES: Final[Mapping[str, Callable[[str], Collection[Right]]]] = {
    "worker": _worker,
    "materialiser": _materialiser,
    "service": _service,
    "publisher": _publisher,
    "operator": _operator,
}


def as_commands(principal: str, wanted: Sequence[Right]) -> str:
    """For kafka-acls.sh; the address and the operator's own properties stand in front of them as variables."""
    flags = {"topic": "--topic", "group": "--group", "transactionalId": "--transactional-id"}
    lines = []
    for right in wanted:
        words = ["--add", "--allow-principal", principal, flags[right.kind], right.name]
        words += [word for operation in right.operations for word in ("--operation", operation)]
        words += ["--resource-pattern-type", "prefixed"] if right.prefixed else []
        lines.append('kafka-acls.sh --bootstrap-server "$KAFKA" --command-config "$ADMIN" ' + shlex.join(words))
    return "\n".join(lines)


def as_strimzi(user: str, wanted: Sequence[Right]) -> str:
    """A KafkaUser. Its authentication and its cluster are the reader's to choose: the first is set to SCRAM."""
    acls = [
        {
            "resource": {
                "type": right.kind,
                "name": right.name,
                "patternType": "prefix" if right.prefixed else "literal",
            },
            "operations": list(right.operations),
        }
        for right in wanted
    ]
    resource = {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {"name": user, "labels": {"strimzi.io/cluster": "CLUSTER"}},
        "spec": {
            "authentication": {"type": "scram-sha-512"},
            "authorization": {"type": "simple", "acls": acls},
        },
    }
    return yaml.safe_dump(resource, sort_keys=False)


def check_rights(kafka: KafkaProfile, process: str, prefix: str) -> None:
    """Raises MissingRightsError, which names all rights on topics and the group that lack, and KafkaUnreachableError.

    Topics that do not exist are passed over. What is to be said of transactional ids, Kafka says only when one is used.
    """
    if kafka.protocol == "PLAINTEXT":
        return
    admin, lacking = connect(kafka), []
    for right in rights(process, prefix):
        if right.prefixed or right.kind not in _ASKED:
            continue
        try:
            allowed = settled(partial(_ASKED[right.kind], admin, right.name))
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            if not denied(error.args[0]):
                admin.poll(0)  # it may have been told that it is not let in
                raise explained(error) from error
            allowed = ["none"]
        missing = tuple(one for one in right.operations if one.lower() not in allowed)
        if missing and allowed:  # some brokers say nothing
            lacking.append(right._replace(operations=missing))
    if lacking:
        raise MissingRightsError(
            f"Kafka does not grant this {process} {'; '.join(map(str, lacking))}: let whoever runs Kafka add what"
            f" `hmx acls --process {process}` prints"
        )


def _of_topic(admin: AdminClient, name: str) -> list[str]:
    asked = TopicCollection([name])
    found = admin.describe_topics(asked, include_authorized_operations=True, request_timeout=ANSWER_S)
    return _said(found[name].result().authorized_operations)


def _of_group(admin: AdminClient, name: str) -> list[str]:
    found = admin.describe_consumer_groups([name], include_authorized_operations=True, request_timeout=ANSWER_S)
    return _said(found[name].result().authorized_operations)


def _said(operations: Iterable[AclOperation] | None) -> list[str]:
    """DESCRIBE_CONFIGS → describeconfigs"""
    return [operation.name.replace("_", "").lower() for operation in operations or ()]


_ASKED: Final = {"topic": _of_topic, "group": _of_group}
"""How it is found out what this user may do with one of them."""
