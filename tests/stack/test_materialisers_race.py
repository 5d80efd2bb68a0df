"""Materialisers that run at once share the partitions: whoever loses a race leaves the partition to the winner."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import TopicPartition

from hmx_pipeline.store.atomic_blocks import Stands
from hmx_pipeline.store.block_builder import BLOCK_ARGUMENTS, BLOCK_RECORDS
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.materialiser import SHARED_RECORDS, Materialiser
from hmx_pipeline.store.partition_reader import FilledPartition, ReadRecords
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS
from tests.support.memory import episode, episode_as_read
from tests.support.pipeline import new_settings


class Racing:
    """Blocks of which another process has already written those up to `at`."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.written: list[Command] = []

    def apply(self, partition: str, expected: int | None, new: int, commands: Sequence[Command]) -> Stands:
        if expected != self.at:
            return Stands(self.at, ours=False)
        self.written += commands
        self.at = new
        return Stands(new, ours=True)


class Seeks:
    """A consumer of which only `seek` is asked."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []

    def seek(self, place: TopicPartition) -> None:
        self.places.append((place.partition, place.offset))


def new_materialiser(blocks: Any = None) -> Materialiser:
    materialiser = Materialiser(new_settings("127.0.0.1:9", "redis://127.0.0.1:9/0"))
    if blocks is not None:
        materialiser._blocks = blocks
    return materialiser


def read(first: int, end: int) -> ReadRecords:
    records = [TopicRecord(ARTIFACTS, 0, n, b"acme/%d" % n, None) for n in range(first, end)]
    return ReadRecords(records, end=end + 1)


def take(materialiser: Materialiser, partition: FilledPartition, found: ReadRecords) -> None:
    materialiser._take(partition, found)
    materialiser._ahead.wait()


def share(materialiser: Materialiser, stored: Mapping[str, int], *partitions: FilledPartition) -> list[tuple[int, int]]:
    """Partition and offset of those that are read again from there."""
    materialiser._partitions = {(p.topic, p.number): p for p in partitions}
    seeks = Seeks()
    materialiser._share(seeks, stored)  # type: ignore[arg-type]
    return seeks.places


def test_of_what_another_process_fills_no_more_blocks_are_made() -> None:
    materialiser, partition = new_materialiser(Racing(at=7)), FilledPartition(ARTIFACTS, 0, None, 0, 6 * BLOCK_RECORDS)
    blocks, made = materialiser._builder.blocks, list[int]()

    def counted(records: Sequence[TopicRecord]) -> Iterator[tuple[list[TopicRecord], list[Command]]]:
        for block, commands in blocks(records):
            made.append(len(block))
            yield block, commands

    materialiser._builder.blocks = counted  # type: ignore[method-assign, assignment]
    take(materialiser, partition, read(0, 6 * BLOCK_RECORDS))
    assert partition.left
    assert partition.position == 7
    assert len(made) <= 2, "the one that was lost, and the one that was made while that was tried"


def test_who_is_first_writes_everything() -> None:
    racing, partition = Racing(None), FilledPartition(ARTIFACTS, 0, None, 0, 10)
    take(new_materialiser(racing), partition, read(0, 10))
    assert partition.position == partition.stored == racing.at == 11
    assert sum(command[0] == b"DEL" for command in racing.written) == 10
    assert not partition.left


def test_who_is_second_writes_nothing_and_leaves_the_partition() -> None:
    for ahead in (3, 10, 25):
        racing, partition = Racing(ahead), FilledPartition(ARTIFACTS, 0, None, 0, 10)
        materialiser = new_materialiser(racing)
        take(materialiser, partition, read(0, 10))
        take(materialiser, partition, read(10, 30))
        assert not racing.written
        assert (partition.left, racing.at) == (True, ahead)
        assert partition.end == 31, "how far behind the other one is can still be told"


def test_a_partition_that_was_left_is_taken_back_where_the_other_one_has_stopped() -> None:
    materialiser, partition = new_materialiser(), FilledPartition(ARTIFACTS, 0, 10, 10, 31, left=True)
    assert not share(materialiser, {partition.name: 20}, partition), "it moves"
    assert share(materialiser, {partition.name: 20}, partition) == [(0, 20)]
    assert (partition.left, partition.stored, partition.position) == (False, 20, 20)


def test_a_partition_without_anything_to_read_stays_left() -> None:
    materialiser, partition = new_materialiser(), FilledPartition(ARTIFACTS, 0, 31, 31, 31, left=True)
    assert not share(materialiser, {partition.name: 31}, partition)
    assert partition.left


def test_who_has_nothing_to_do_helps_where_most_is_waiting() -> None:
    materialiser, mine = new_materialiser(), FilledPartition(ARTIFACTS, 0, 5, 5, 5)
    little, much = (
        FilledPartition(ARTIFACTS, number, 0, 0, waiting + 10, left=True)
        for number, waiting in ((1, SHARED_RECORDS), (2, SHARED_RECORDS + 1))
    )
    moved = {mine.name: 5, little.name: 10, much.name: 10}
    assert share(materialiser, moved, mine, little, much) == [(2, 10)]
    mine.end = 5 + SHARED_RECORDS
    assert not share(materialiser, {**moved, little.name: 11}, mine, little)


def test_a_block_is_cut_by_its_arguments_too() -> None:
    materialiser = new_materialiser()
    text = " ".join(f"word{n}" for n in range(200))
    found = [episode_as_read(episode(f"e{n}", text, index=n), n) for n in range(200)]
    cut = [(block, sum(map(len, commands))) for block, commands in materialiser._builder.blocks(found)]
    assert [record for block, _ in cut for record in block] == found
    assert len(cut) > 1
    assert all(arguments <= BLOCK_ARGUMENTS + 1_000 for _, arguments in cut)
