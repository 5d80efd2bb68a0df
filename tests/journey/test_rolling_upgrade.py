"""Two workers of a group, the newer one with a newer format of the state: they take partitions over from each other and
back, and nothing is lost or doubled. The older one never touches what the newer one has written, nor rejects what it
does not know of an operator."""

from pathlib import Path

import pytest

from hmx_pipeline.audit.state_rebuild import RebuildError, rebuild_state
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.headers import origin_of
from hmx_pipeline.intake.control_records import barrier
from hmx_pipeline.kafka.control_producer import append_control
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.samples import sample_events
from hmx_pipeline.observe.process_reader import readiness
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.state_formats import STATE_FORMAT
from hmx_pipeline.topology import EPISODES, EVENTS_DLQ, STAGES
from tests.support.pipeline import new_settings, running
from tests.support.state import latest, sound
from tests.support.topics import headers_of, read
from tests.support.waiting import until

PARTITIONS = 4
NEWER = """
from hmx_pipeline.stages import state_formats as formats

def rewritten(key, value):
    return value + b" "

step = {"s": rewritten, "m": rewritten, "p": rewritten}
formats.FORMATS = formats.FORMATS._replace(steps=(*formats.FORMATS.steps, step))
formats.STATE_FORMAT = formats.FORMATS.current
from hmx_pipeline.cli.app import main
main()
"""
"""A release whose state has one format more; it reads white space at a record's end, and writes none."""


OBEYING = """
from hmx_pipeline.intake import control_records
control_records._KINDS |= {"x-hmx-later"}
from hmx_pipeline.cli.app import main
main()
"""
"""A release that knows one operator's event more."""


def formats(settings: Settings) -> set[int]:
    """Of all partitions that have been processed."""
    records = (latest(settings, stage, n).get("!", b"") for stage in STAGES for n in range(PARTITIONS))
    return {STATE_FORMAT + n for record in records for n in (0, 1) if b'"format":%d' % (STATE_FORMAT + n) in record}


def test_a_rolling_upgrade_to_another_format_loses_and_doubles_nothing(
    kafka: str, redis_url: str, tmp_path: Path
) -> None:
    settings = new_settings(kafka, redis_url)
    (newer_port,) = free_ports(1)
    old, new = f"http://127.0.0.1:{settings.worker_port}", f"http://127.0.0.1:{newer_port}"
    samples = sample_events()
    part = len(samples) // 4
    with running(settings, tmp_path, "worker", "materialiser", partitions=PARTITIONS) as pipeline:
        publish(samples[:part], settings)
        wait_for_all(settings)
        assert formats(settings) == {STATE_FORMAT}

        pipeline.start("worker-2", program=("-c", NEWER), worker_port=newer_port)
        publish(samples[part : 2 * part], settings)
        wait_for_all(settings)
        assert formats(settings) == {STATE_FORMAT, STATE_FORMAT + 1}

        pipeline.stop("worker-2")
        publish(samples[2 * part : 3 * part], settings)
        until(lambda: "a newer release has written it" in readiness(old)[1], "the older worker sets them aside")
        assert pipeline.processes["worker"].poll() is None
        assert formats(settings) == {STATE_FORMAT, STATE_FORMAT + 1}

        pipeline.start("worker-2", ready=False, program=("-c", NEWER), worker_port=newer_port)
        publish(samples[3 * part :], settings)
        pipeline.stop("worker")
        until(lambda: readiness(new)[0], "the newer worker has all of them")
        wait_for_all(settings)
        assert formats(settings) == {STATE_FORMAT + 1}
        sound(settings)


def test_who_goes_back_to_the_older_release_rebuilds_the_state_from_the_log(
    kafka: str, redis_url: str, tmp_path: Path
) -> None:
    settings, samples = new_settings(kafka, redis_url), sample_events()
    half = len(samples) // 2
    old = f"http://127.0.0.1:{settings.worker_port}"
    with running(settings, tmp_path, "materialiser", partitions=PARTITIONS) as pipeline:
        pipeline.start("worker-2", program=("-c", NEWER))
        publish(samples[:half], settings)
        wait_for_all(settings)
        assert formats(settings) == {STATE_FORMAT + 1}
        pipeline.stop("worker-2")
        pipeline.start("worker")
        publish(samples[half:], settings)
        until(lambda: "a newer release has written it" in readiness(old)[1], "the older worker sets them aside")
        stage, wrote = STAGES[0], {s.name: [n for n in range(PARTITIONS) if latest(settings, s, n)] for s in STAGES}
        with pytest.raises(RebuildError, match="Start that release: it needs no rebuild"):
            rebuild_state(settings, stage, wrote[stage.name][0])
        for stage in STAGES:
            for number in wrote[stage.name]:
                rebuild_state(settings, stage, number, force=True)
        until(lambda: readiness(old)[0], "it goes on with what is rebuilt")
        wait_for_all(settings)
        assert formats(settings) == {STATE_FORMAT}
        sound(settings)


def test_an_operators_event_that_an_older_worker_does_not_know_waits_for_a_newer_one(
    kafka: str, redis_url: str, tmp_path: Path
) -> None:
    settings = new_settings(kafka, redis_url)
    (newer_port,) = free_ports(1)
    old, samples = f"http://127.0.0.1:{settings.worker_port}", sample_events()
    with running(settings, tmp_path, "worker", "materialiser", partitions=PARTITIONS) as pipeline:
        asked = barrier("b", 0, 0).replace(b"x-hmx-barrier", b"x-hmx-later")
        append_control(settings, "later", [(0, asked)])
        publish(samples, settings)
        until(lambda: "this release knows no x-hmx-later" in readiness(old)[1], "the older worker sets it aside")
        assert pipeline.processes["worker"].poll() is None

        def released() -> int:
            return sum(len(messages) for messages in read(settings, EPISODES).values())

        until(lambda: released() > 0, "the other partitions go on")
        waiting = released()
        pipeline.stop("worker")
        pipeline.start("worker-2", program=("-c", OBEYING), worker_port=newer_port)
        wait_for_all(settings)
        assert released() > waiting
        letters = [origin_of(headers_of(m)) for own in read(settings, EVENTS_DLQ).values() for m in own]
        assert letters
        assert (0, 0) not in letters
