"""What each process may do on Kafka: computed from the topology, and no more."""

import shlex
from itertools import pairwise

import yaml

from hmx_pipeline.kafka.acl_rights import PROCESSES, Right, as_commands, as_strimzi, rights
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ, MATERIALISED, STAGES


def may(process: str, operation: str) -> set[str]:
    return {right.name for right in rights(process) if right.kind == "topic" and operation in right.operations}


def test_a_process_reads_and_writes_what_the_topology_says_and_no_more() -> None:
    sources, states = {stage.source for stage in STAGES}, {stage.state for stage in STAGES}
    outputs = {topic for stage in STAGES for topic in (*stage.outputs, stage.dead_letters)}
    assert may("worker", "Read") == sources | states
    assert may("worker", "Write") == sources | states | outputs
    assert may("materialiser", "Read") == set(MATERIALISED)
    assert may("service", "Write") == may("publisher", "Write") == {EVENTS}
    assert may("materialiser", "Write") == may("publisher", "Read") == set()


def test_only_workers_and_operators_begin_transactions_and_only_operators_change_topics() -> None:
    for process in PROCESSES:
        kinds = {right.kind for right in rights(process)}
        assert ("transactionalId" in kinds) == (process in ("worker", "operator"))
        changes = {"Create", "Alter", "AlterConfigs", "Delete"}
        assert any(changes & set(right.operations) for right in rights(process)) == (process == "operator")
    assert EVENTS_DLQ not in may("service", "Read")  # it holds bytes as they came


def test_every_name_is_of_this_installation() -> None:
    for process in PROCESSES:
        assert {right._replace(name=f"a.{right.name}") for right in rights(process)} == set(rights(process, "a."))


def test_both_forms_say_the_same() -> None:
    for process in PROCESSES:
        wanted, found = rights(process, "a."), set()
        for line in as_commands(f"User:{process}", wanted).splitlines():
            words = shlex.split(line)
            flag = next(word for word in words if word in ("--topic", "--group", "--transactional-id"))
            kind = {"--topic": "topic", "--group": "group", "--transactional-id": "transactionalId"}[flag]
            operations = tuple(after for word, after in pairwise(words) if word == "--operation")
            assert words[words.index("--allow-principal") + 1] == f"User:{process}"
            found.add(Right(kind, words[words.index(flag) + 1], operations, "prefixed" in words))
        assert found == set(wanted)
        user = yaml.safe_load(as_strimzi(process, wanted))
        assert found == {
            Right(
                acl["resource"]["type"],
                acl["resource"]["name"],
                tuple(acl["operations"]),
                acl["resource"]["patternType"] == "prefix",
            )
            for acl in user["spec"]["authorization"]["acls"]
        }
