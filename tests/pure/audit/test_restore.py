"""Whatever offsets a partition has, what a restore writes takes up every one of them, and each record has its own."""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.audit import restore
from hmx_pipeline.audit.backup import (
    FORMAT,
    MANIFEST,
    BackupError,
    Manifest,
    StoredPartition,
    StoredRecord,
    StoredTopic,
    fingerprint,
    manifest_of,
    sealed,
)
from hmx_pipeline.audit.restore import aborted, outdated, pieces_of
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.kafka.topic_plan import ClusterState, PlanVerdict, TopicPlan, TopicState
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EVENTS

DAY_MS = 86_400_000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore, "FILLERS", 3)
    monkeypatch.setattr(restore, "PIECE_RECORDS", 4)


@given(offsets=st.sets(st.integers(0, 60)), after=st.integers(0, 9))
def test_every_record_has_its_offset_again(offsets: set[int], after: int) -> None:
    rows = [StoredRecord(offset, 1, b"k", b"v", []) for offset in sorted(offsets)]
    end = max(offsets, default=-1) + 1 + (after if offsets else after + 2)
    at, found = 0, []
    for piece in pieces_of(rows, end):
        for record in piece.records:
            if record.value is not None:  # else it stands for a single offset before the first record
                assert record.offset == at
                found.append(record)
            at += 1
        if piece.gap == 1:
            assert piece.records, "the marker of their transaction takes it"
            at += 1
        elif piece.gap:
            counts = list(aborted(piece.gap))
            assert all(1 <= count <= restore.FILLERS + 1 for count in counts)
            at += sum(count + 1 for count in counts)
    assert at == end
    assert found == rows


def test_only_a_topic_whose_retention_has_passed_keeps_all_for_now() -> None:
    now_ms = int(time.time() * 1000)

    def stored(age_days: int) -> StoredTopic:
        return StoredTopic("id", [StoredPartition(0, 1, 1, "", now_ms - age_days * DAY_MS)])

    specs = load_topics(prefix="x.")
    old, young = ({EVENTS: stored(days), ARTIFACTS: stored(400)} for days in (31, 29))
    assert list(outdated(Manifest(1, "", "", old), specs, "x.")) == [EVENTS]
    assert list(outdated(Manifest(1, "", "", young), specs, "x.")) == []


@pytest.mark.parametrize("change", [{"others": []}, {EVENTS: [StoredPartition(0, 10**12, 0, "", 0)]}])
def test_whoever_lacks_the_control_key_alters_no_backup(
    tmp_path: Path, change: Mapping[str, list[StoredPartition]]
) -> None:
    """What a manifest names, a restore fills and cuts: topics and offsets, too."""
    settings = Settings(control_key="known to processes alone")
    topics = {EVENTS: StoredTopic("id", [])}
    manifest = Manifest(FORMAT, fingerprint(settings), sealed(settings, topics), topics)
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    assert manifest_of(tmp_path, settings) == manifest
    altered = {**topics, **{topic: StoredTopic("id", partitions) for topic, partitions in change.items()}}
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, topics=altered)))
    with pytest.raises(BackupError, match="altered"):
        manifest_of(tmp_path, settings)


@pytest.mark.parametrize(("stored", "there"), [(2, 8), (8, 2), (8, 16)])
def test_a_backup_is_not_restored_into_topics_that_have_another_number_of_partitions(
    stored: int, there: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small stack into a whole one, say: keys would be in other partitions from then on."""
    specs = load_topics()
    parts = [StoredPartition(*([0] * len(StoredPartition.__struct_fields__)))] * stored
    manifest = Manifest(FORMAT, "", "", {one.topic: StoredTopic("id", parts) for one in specs})
    found = {one.topic: TopicState(there, 1, one.config.entries(), frozenset(), empty=True) for one in specs}
    applied: list[TopicPlan] = []

    class EnoughError(Exception):
        pass

    def noted(_: object, wanted: TopicPlan) -> None:
        applied.append(wanted)
        raise EnoughError

    for name, answer in (
        ("manifest_of", manifest),
        ("connect", None),
        ("read_cluster", ClusterState(1, found)),
        ("_await_no_worker", None),
    ):
        monkeypatch.setattr(restore, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(restore, "apply", noted)
    with pytest.raises((EnoughError, BackupError)):
        restore.restore(Settings.load({"HMX_KAFKA_BOOTSTRAP": "localhost:1"}), Path(), lambda *_: None)
    assert all(wanted.verdict is PlanVerdict.REFUSED for wanted in applied)
