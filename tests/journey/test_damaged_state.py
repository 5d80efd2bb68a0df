"""State records are damaged on purpose: their partitions are set aside and named, the others run, `hmx state rebuild`
mends them while the worker runs, and nothing is lost or doubled."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer, TopicPartition
from typer.testing import CliRunner

from hmx_pipeline.audit.state_rebuild import RebuildError, rebuild_state
from hmx_pipeline.cli.app import application
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.local.samples import sample_events
from hmx_pipeline.observe.process_reader import figures, readiness
from hmx_pipeline.queries.pipeline_status import stages
from hmx_pipeline.runtime.stored_positions import stored_position
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.topology import PATTERNS, SESSIONS, STAGES, Stage
from hmx_pipeline.worker.runner import EXIT_FENCED
from tests.support.pipeline import Pipeline, environment, new_settings, running
from tests.support.state import latest, sound
from tests.support.waiting import until

PARTITIONS = 8
HEALTHY = PARTITIONS - 1


@dataclass
class Damage:
    stage: Stage
    partition: int
    prefix: str
    how: str

    @property
    def refused(self) -> bool:
        """By `hmx state rebuild` without --force."""
        return self.how == "newer"

    @property
    def place(self) -> str:
        return f"{self.stage.source}/{self.partition}"


DAMAGES = [
    Damage(SESSIONS, 0, "s", "truncated"),
    Damage(SESSIONS, 1, "w", "random"),
    Damage(SESSIONS, 2, "e", "truncated"),
    Damage(SESSIONS, 3, "g", "random"),
    Damage(SESSIONS, 4, "z", "random"),
    Damage(SESSIONS, 5, "y", "random"),
    Damage(SESSIONS, 6, POSITION_KEY, "truncated"),
    Damage(PATTERNS, 0, "m", "truncated"),
    Damage(PATTERNS, 1, "p", "random"),
    Damage(PATTERNS, 2, "b", "truncated"),
    Damage(PATTERNS, 3, POSITION_KEY, "older"),
    Damage(PATTERNS, 4, POSITION_KEY, "newer"),
    Damage(PATTERNS, 5, "q", "random"),
    Damage(PATTERNS, 6, POSITION_KEY, "random"),
]


def damage(settings: Settings, damages: list[Damage]) -> None:
    """A record of that kind that is there, or one that never was."""
    producer = Producer({"bootstrap.servers": settings.kafka_bootstrap})
    for each in damages:
        records = latest(settings, each.stage, each.partition)
        known = sorted(key for key in records if key.startswith(each.prefix))
        key = known[0] if known else f"{each.prefix}/acme/secret-session/0"
        value = records.get(key, b"{}")
        if each.how in ("older", "newer"):
            value = orjson.dumps(orjson.loads(value) | {"format": 1 if each.how == "older" else 1_000})
        else:
            value = value[: len(value) // 2] if each.how == "truncated" else b"\xff\x00not a record\x81"
        producer.produce(settings.topic_prefix + each.stage.state, value, key.encode(), each.partition)
    assert not producer.flush(30)


def positions(settings: Settings, stage: Stage, partitions: Iterable[int]) -> list[int]:
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        found = [stored_position(cluster, stage, settings.topic_prefix, partition) for partition in partitions]
    return [position.position if position is not None else 0 for position in found]


def address(settings: Settings) -> str:
    return f"http://127.0.0.1:{settings.worker_port}"


def restarted(pipeline: Pipeline, damages: list[Damage]) -> str:
    """What the worker says once it runs, but for the damaged partitions."""
    pipeline.start("worker", ready=False)
    said = ""

    def named() -> bool:
        nonlocal said
        said = readiness(address(pipeline.settings))[1]
        return all(f"{pipeline.settings.topic_prefix}{each.place}: the state can't be read" in said for each in damages)

    until(named, "every damaged partition is named")
    return said


def test_damaged_state_sets_its_partition_aside_the_others_run_and_rebuilding_it_loses_and_doubles_nothing(
    kafka: str, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = new_settings(kafka, redis_url)
    samples = list(sample_events())
    half = len(samples) // 2
    with running(settings, tmp_path, "worker", "materialiser", partitions=PARTITIONS) as pipeline:
        publish(samples[:half], settings)
        wait_for_all(settings)
        pipeline.stop("worker")
        damage(settings, DAMAGES)
        said = restarted(pipeline, DAMAGES)

        for each in DAMAGES:
            mend = f"hmx state rebuild {each.partition} --stage {each.stage.name}"
            assert (mend in said) is not each.refused
            assert f"{settings.topic_prefix}{each.stage.state}/{each.partition}, offset " in said
        assert "a newer release has written it" in said
        assert f"{SESSIONS.source}/{HEALTHY}" not in said
        assert "secret-session" not in said + pipeline.log("worker", 10_000)
        for name, value in {**environment(settings), "HMX_STATE": str(tmp_path)}.items():  # no local stack is there
            monkeypatch.setenv(name, value)
        status = CliRunner().invoke(application(), ["status"])
        assert status.exit_code == 1
        assert "hmx state rebuild 0 --stage sessions" in " ".join(status.output.split())
        assert status.output.count("set aside") >= len(DAMAGES)
        found = stages(settings, figures([address(settings)]))
        for stage in STAGES:
            aside = {row["partition"] for row in found[stage.name]["partitions"] if row["set_aside"]}
            assert aside == {each.partition for each in DAMAGES if each.stage is stage}

        readable = [each.partition for each in DAMAGES if each.stage is SESSIONS and each.prefix != POSITION_KEY]
        healthy = range(HEALTHY, PARTITIONS)
        before, stood = positions(settings, SESSIONS, healthy), positions(settings, SESSIONS, readable)
        publish(samples[half:], settings)
        until(lambda: positions(settings, SESSIONS, healthy) > before, "the others run")
        assert positions(settings, SESSIONS, readable) == stood

        for each in DAMAGES:
            if each.refused:
                with pytest.raises(RebuildError, match="newer release"):
                    rebuild_state(settings, each.stage, each.partition)
            words = ["state", "rebuild", str(each.partition), "--stage", each.stage.name]
            result = CliRunner().invoke(application(), [*words, "--force"] if each.refused else words)
            assert result.exit_code == 0, (each, result.output, result.exception)
            assert "rebuilt" in result.output
        until(lambda: readiness(address(settings))[0], "the worker is ready again, in the same process")
        assert pipeline.processes["worker"].poll() is None
        wait_for_all(settings)
        sound(settings)


def test_what_the_rebuild_cannot_do_unasked_it_refuses_and_an_owner_at_work_hands_over(
    kafka: str, redis_url: str, tmp_path: Path
) -> None:
    """The owner is fenced in the midst of its work and ends; the next one goes on where the rebuilt state stands."""
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path, "worker", "materialiser", partitions=1) as pipeline:
        publish(sample_events(), settings)
        wait_for_all(settings)
        pipeline.stop("worker")
        for stage in STAGES:
            written = values(settings, stage)
            with pytest.raises(RebuildError, match="can be read"):
                rebuild_state(settings, stage, 0)
            rebuild_state(settings, stage, 0, force=True)
            assert written
            assert values(settings, stage) == written
        pipeline.start("worker")
        rebuild_state(settings, SESSIONS, 0, force=True)
        publish(sample_events()[:1], settings)
        assert pipeline.processes["worker"].wait(60) == EXIT_FENCED
        pipeline.start("worker")
        wait_for_all(settings)
        sound(settings)

        pipeline.stop("worker")
        take_by_retention(settings, SESSIONS, 10)
        damage(settings, [Damage(SESSIONS, 0, POSITION_KEY, "truncated")])
        with pytest.raises(RebuildError, match="below offset 10, so the rebuilt state"):
            rebuild_state(settings, SESSIONS, 0)
        done = rebuild_state(settings, SESSIONS, 0, force=True)
        assert any("retention" in note for note in done.notes)
        pipeline.start("worker")
        wait_for_all(settings)


def take_by_retention(settings: Settings, stage: Stage, before: int) -> None:
    admin = connect(settings.kafka_bootstrap)
    for deleted in admin.delete_records([TopicPartition(settings.topic_prefix + stage.source, 0, before)]).values():
        deleted.result()


def values(settings: Settings, stage: Stage) -> dict[str, bytes]:
    """All but the position, and journals: how these are cut into blocks is how the log was cut into batches."""
    return {key: value for key, value in latest(settings, stage, 0).items() if key[0] not in "e!"}
