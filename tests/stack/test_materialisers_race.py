"""Two materialisers cut a partition into other blocks: where one stops inside the other's block, nothing is lost."""

from collections.abc import Sequence

from pipeline.store.changes import Command
from pipeline.store.materialiser import BLOCK_ARGUMENTS, Materialiser, _Found, _Partition
from pipeline.store.projection import Record
from pipeline.topology import KNOWLEDGE
from tests.support.memory import episode, episode_as_read
from tests.support.pipeline import new_settings


class Racing:
    """Blocks in which another process has already written up to `at`."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.written: list[Command] = []

    def apply(self, partition: str, expected: int | None, new: int, commands: Sequence[Command]) -> int:
        if expected == self.at:
            self.written += commands
            self.at = new
        return self.at


def take(end: int, ahead: int) -> Racing:
    materialiser = Materialiser(new_settings("127.0.0.1:9", "redis://127.0.0.1:9/0"))
    materialiser._blocks = racing = Racing(ahead)  # type: ignore[assignment]
    records = [Record(KNOWLEDGE, 0, n, b"acme/%d" % n, b"{}") for n in range(end)]
    partition = _Partition(KNOWLEDGE, 0, None, 0, end)
    materialiser._take(partition, _Found(records, end=end + 1))
    materialiser._written()
    assert partition.position == partition.stored == racing.at == end + 1
    return racing


def test_the_rest_of_a_block_is_written_where_another_process_is_inside_it() -> None:
    for ahead in (0, 3, 9, 10):
        written = [command[1] for command in take(10, ahead).written if command[0] == b"SET"]
        assert [key.rsplit(b":", 1)[1] for key in written] == [b"%d" % n for n in range(ahead, 10)]


def test_a_block_is_cut_by_its_arguments_too() -> None:
    materialiser = Materialiser(new_settings("127.0.0.1:9", "redis://127.0.0.1:9/0"))
    text = " ".join(f"word{n}" for n in range(200))
    found = [episode_as_read(episode(f"e{n}", text, index=n), n) for n in range(200)]
    cut = [(block, sum(map(len, commands))) for block, commands in materialiser._blocks_of(found)]
    assert [record for block, _ in cut for record in block] == found
    assert len(cut) > 1
    assert all(arguments <= BLOCK_ARGUMENTS + 1_000 for _, arguments in cut)
