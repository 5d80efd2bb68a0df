"""A tenant's memory of any size, made up, and questions to it: written to Redis as the materialiser writes it.

Words are as unevenly frequent as in conversations, half of a session's are about its subject; the most frequent are
English, so that questions have words near to theirs, and the rest made up. Every document holds its month and year,
every fifth its speaker's name. Nothing is drawn from a clock: the same size is the same memory.
"""

import lzma
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.retrieval.postings import document_number, pack_row
from hmx_pipeline.retrieval.searchable import Document, document_terms
from hmx_pipeline.store.changes import Changes, Command
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.topology import EPISODES, EVIDENCE
from tests.quality.remembered import as_read, both_stages
from tests.quality.sessions import published
from tests.support.memory import T0, Memory, artifact, artifact_as_read
from tests.support.sessions import interleaved, session

TURNS: Final = 20
"""Of a session."""
WORDS: Final = 14
PARTITIONS: Final = 8
BLOCK: Final = 500
APART_MS: Final = 30_000
_SUBJECTS: Final = 12
"""Words that belong to a session's subject."""
_SYLLABLES: Final = (
    "ba",
    "ko",
    "ri",
    "tu",
    "mel",
    "san",
    "dor",
    "vek",
    "lin",
    "pra",
    "os",
    "gim",
    "fen",
    "zul",
    "char",
    "wet",
)
_ENCODER: Final = msgspec.msgpack.Encoder()


@cache
def _english() -> list[str]:
    """In an order that has nothing to do with what they mean. What is made up ends in an x."""
    table = lzma.decompress(files("hmx_pipeline.retrieval").joinpath("related.xz").read_bytes())
    stems = table.partition(b"\n\n")[0].decode().split("\n")
    return sorted((stem for stem in stems if not stem.endswith("x")), key=lambda stem: sha256(stem.encode()).digest())


@cache
def word(number: int) -> str:
    """No stop word, and no other number's."""
    english = _english()
    if number < len(english):
        return english[number]
    made, number = "", number - len(english)
    while True:
        number, place = divmod(number, len(_SYLLABLES))
        made += _SYLLABLES[place]
        if not number:
            return made + "x"


def vocabulary(documents: int) -> int:
    return 5_000 + documents // 4


def _frequent(dice: np.random.Generator, size: int, words: int) -> NDArray[np.int64]:
    """Ranks of words, the k-th about as frequent as 1/k."""
    return np.minimum((words ** dice.random(size)).astype(np.int64), words - 1)


def documents(count: int, words: int, first: int = 0) -> Iterator[tuple[int, Document]]:
    """From the `first` on, each with its number; 64 sessions at a time take turns."""
    for group in range(first // (64 * TURNS), (first + count) // (64 * TURNS) + 1):
        dice = np.random.default_rng(group)
        subjects = _frequent(dice, 64 * _SUBJECTS, words).reshape(64, _SUBJECTS) * 7 % words
        for turn in range(TURNS):
            common = _frequent(dice, 64 * WORDS // 2, words).reshape(64, -1)
            about = dice.integers(0, _SUBJECTS, (64, WORDS // 2))
            for place in range(64):
                at = (group * TURNS + turn) * 64 + place
                if not first <= at < first + count:
                    continue
                chosen = [*common[place].tolist(), *subjects[place][about[place]].tolist()]
                name = f"session-{group * 64 + place:06d}"
                said = Document(
                    event_id=f"event-{at:09d}",
                    session_id=name,
                    agent_id="agent-1",
                    role=Role.MESSAGE,
                    actor="user" if turn % 2 else f"agent {place % 5}",
                    at=T0 + at * APART_MS,
                    salience=0.5,
                    text=" ".join(word(n) for n in chosen),
                )
                yield document_number(place % PARTITIONS, at), said


def blocks(keys: Keys, tenant: str, count: int, words: int, first: int = 0) -> Iterator[tuple[str, int, list[Command]]]:
    """Partition, the position after it, and what writes it."""
    waiting: list[list[tuple[int, Document]]] = [[] for _ in range(PARTITIONS)]
    for number, said in documents(count, words, first):
        held = waiting[number >> 48]
        held.append((number, said))
        if len(held) == BLOCK:
            yield _block(keys, tenant, held)
            held.clear()
    for held in waiting:
        if held:
            yield _block(keys, tenant, held)


def _block(keys: Keys, tenant: str, held: list[tuple[int, Document]]) -> tuple[str, int, list[Command]]:
    changes = Changes(keys)
    writer = changes.of(tenant)
    partition = f"{EPISODES}/{held[0][0] >> 48}"
    offset = held[-1][0] & (1 << 48) - 1
    for number, said in held:
        terms = document_terms(said)
        row = pack_row(number, said.session_id, said.at, len(terms))
        writer.document(number, _ENCODER.encode(said), row, terms, ())
    writer.version(EPISODES, held[0][0] >> 48, offset)
    last = held[-1][1]
    writer.event(last.event_id.encode(), last.session_id.encode(), b"{}", last.at)
    return partition, offset + 1, changes.commands()


def artifacts(tenant: str, count: int, vocabulary: int) -> Iterator[Artifact]:
    dice = np.random.default_rng(count)
    for n in range(count):
        chosen = [word(k) for k in _frequent(dice, 40, vocabulary).tolist()]
        steps = [
            {
                "order": i,
                "description": " ".join(chosen[4 * i : 4 * i + 4]),
                "tools_used": [chosen[i]],
                "optional": False,
            }
            for i in range(1, 9)
        ]
        content: dict[str, Any] = {
            "steps": steps,
            "preconditions": [],
            "postconditions": [],
            "tools_used": chosen[1:9],
            "estimated_complexity": "low",
        }
        yield artifact(f"artifact-{n:06d}", " ".join(chosen[:4]), tenant=tenant, content=content)


def fill(memory: Memory, tenant: str, episodes: int, compiled: int = 0) -> None:
    positions: dict[str, int | None] = dict(memory.store.positions())
    for partition, new, commands in blocks(memory.keys, tenant, episodes, vocabulary(episodes)):
        assert memory.blocks.apply(partition, positions.get(partition), new, commands).ours
        positions[partition] = new
    made = artifacts(tenant, compiled, vocabulary(episodes))
    offset = 0
    while batch := list(islice(made, BLOCK)):
        memory.write(*(artifact_as_read(each, offset + n) for n, each in enumerate(batch)))
        offset += len(batch)
    memory.blocks.begin_fill({name: (0, at) for name, at in memory.store.positions().items()})  # whole, as when served


def past(memory: Memory, tenant: str, sessions: int) -> None:
    """What both stages make of so many sessions of agents at work: what each did, what came of it, what its user
    corrected."""
    events = interleaved([_corrected(session(number, tenant), number) for number in range(sessions)], 1)
    made = iter([*as_read(published(events), EVIDENCE), *both_stages(events)])
    while batch := list(islice(made, BLOCK)):
        # A partition of its own: offsets go on within each.
        memory.write(*(record._replace(partition=PARTITIONS) for record in batch))


def _corrected(events: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    """Its end, and what its user says of its last action."""
    last = events[-1]
    said = {"signal": "correction", "comment": f"the user said: use account {word(number % 100)} for it"}
    return [
        *events,
        {
            **last,
            "event_id": f"{last['session_id']}-corrected",
            "sequence": len(events),
            "content": said,
            "metadata": {"rejected_tool": f"tool_{word(number % 100)}"},
        },
    ]


def queries(count: int, episodes: int, seed: int = 1) -> list[str]:
    """Each about what one document says: some of its words, and sometimes when it was said."""
    dice = np.random.default_rng(seed)
    wanted = sorted(dice.integers(0, episodes, count).tolist())
    asked = []
    for at in wanted:
        ((_, said),) = documents(1, vocabulary(episodes), at)
        words = dice.permutation(said.text.split())[: int(dice.integers(3, 8))].tolist()
        when = ["in March 2026"] if dice.random() < 0.3 else []
        asked.append(" ".join(["what about", *words, *when]))
    return [asked[n] for n in dice.permutation(count).tolist()]
