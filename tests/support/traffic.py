"""Traffic as many producers make it: seeded, timed, with everything that may happen to an event on its way.

Enters: a seed. Leaves: `Sent` records in the order of their sending, to be laid out as logs on an injected clock
(`lay_out`) or published in real time. Nothing here knows what becomes of them.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import orjson

from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.intake.control_records import reroute_header
from tests.support.inprocess import KEY, barrier_record, signed, tick_record
from tests.support.records import START_MS, LogRecord, event

TENANTS = ("acme", "a/b", "a", "Grüße 🚢\n")
GAP_FILLED_AFTER = (2_000, 4_500, 5_500, 8_000)
YEAR_MS = 365 * 86_400_000
DAY_MS = 86_400_000
SAID = (
    "Our database is Postgres.", "Our database is MySQL.", "Our database is not MySQL.", "We use Redis.",
    "We don't use Redis.", "The billing service runs on Nomad.", "The billing service runs on Mesos.",
    "Always run the linter before committing.", "Never run the linter before committing.",
)  # fmt: skip
TOLD: tuple[tuple[str, dict[str, Any]], ...] = (
    ("verification.recorded", {"command": "pytest", "outcome": "failed"}),
    ("verification.recorded", {"command": "pytest", "outcome": "passed"}),
    ("context.policy", {"source": "AGENTS.md", "instructions": ["Write tests first."]}),
    ("user.preference_changed", {"userId": "kim", "key": "theme", "value": "dark"}),
    ("x-acme-thing", {"colour": "teal"}),
)


class Sent(NamedTuple):
    """One record. Without an event it is invalid, for this reason; without either, a control record."""

    at: int
    """Milliseconds after the beginning."""
    value: bytes | None = None
    event: dict[str, Any] | None = None
    reason: str = ""
    astray: bool = False
    """Not to the session's own partition."""
    control: str = ""

    @property
    def key(self) -> str:
        assert self.event is not None
        return session_key(self.event["tenant_id"], self.event["session_id"])


def traffic(seed: int, sessions: int, seconds: float, *, long: int = 0) -> list[Sent]:
    """Sessions that begin within so many seconds; `long` more of them outgrow what is remembered of released ids."""
    dice = random.Random(seed)
    sent: list[Sent] = []
    for number in range(sessions + long):
        start = dice.randrange(int(seconds * 1_000))
        sent += synthetic(dice, number, start, long=number >= sessions)
    return sorted(sent, key=lambda record: record.at)


def synthetic(dice: random.Random, number: int, start: int, *, long: bool = False) -> list[Sent]:
    """Session `number`, from `start` on, and perhaps an invalid record."""
    tenant, name = _names(number)
    made = _long_session(dice, tenant, name, start) if long else _session(dice, tenant, name, start)
    sent = [_record(dice, at, item) for at, item in made]
    if dice.random() < 0.15:
        sent.append(_invalid(dice, start, number))
    return sent


def _names(number: int) -> tuple[str, str]:
    """The same name under two tenants is two sessions; so are `a/b` + `c` and `a` + `b/c`."""
    group, member = divmod(number, len(TENANTS) + 2)
    pairs = [*((tenant, f"s{group}") for tenant in TENANTS), ("a/b", f"c{group}"), ("a", f"b/c{group}")]
    return pairs[member]


def _session(dice: random.Random, tenant: str, name: str, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
    skew = dice.choice([0, 0, 0, 0, YEAR_MS, -YEAR_MS])
    for run in range(dice.choice([1, 1, 1, 1, 2, 3])):
        sequence = 0 if run else dice.choice([0, 0, 0, 1, 7, 2**63])
        pace = dice.choice([10, 150, 900])
        behind = 60_000 if run and dice.random() < 0.3 else 0  # a counter that starts over in the past
        for n in range(dice.randint(2, 14)):
            start += dice.randrange(2 * pace)
            fields: dict[str, Any] = {"tenant_id": tenant, "event_id": f"{name}.{run}.{n}"}
            item = event(name, sequence, **fields, content={"n": n, "text": "x" * dice.randrange(40)})
            item |= _stated(random.Random(f"{tenant}/{name}.{run}.{n}"), item)
            item["timestamp"] = _stamp(dice, START_MS + start + skew - behind, dice.randrange(1_000_000))
            yield from journey(dice, start, item, sequence)
            sequence += dice.choice([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3])


def _stated(dice: random.Random, item: dict[str, Any]) -> dict[str, Any]:
    """Now and then something to know: said, or told by a typed event."""
    if dice.random() < 0.9:
        return {}
    if dice.random() < 0.5:
        return {"content": {**item["content"], "role": dice.choice(["user", "assistant"]), "text": dice.choice(SAID)}}
    kind, content = dice.choice(TOLD)
    return {"event_type": kind, "content": {**item["content"], **content}}


def journey(dice: random.Random, at: int, item: dict[str, Any], sequence: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The event, on time or not or never, and whatever comes with it."""
    fate = dice.random()
    if fate < 0.8:
        yield at, item
    elif fate < 0.88:
        yield at + dice.randrange(400), item
    elif fate < 0.96:
        yield at + dice.choice(GAP_FILLED_AFTER), item
    if dice.random() < 0.08:  # the same sequence once more, a little earlier or later by its own clock
        shift = timedelta(milliseconds=dice.choice([-1_000, -1, 0, 0, 1, 60_000]))
        twin = {**item, "event_id": dice.choice(["", "~"]) + item["event_id"] + "t"}
        twin["timestamp"] = _shifted(item["timestamp"], shift)
        yield at + dice.choice([0, 5, 300, *GAP_FILLED_AFTER]), twin
    if dice.random() < 0.06:  # sent again, perhaps by another serialiser
        again = {name: item[name] for name in sorted(item)}
        if "n" in item["content"]:
            again["content"] = {**item["content"], "n": float(item["content"]["n"])}
        yield at + dice.choice([0, 5, 1_000, 6_000]), dice.choice([item, again])
    if dice.random() < 0.03:
        yield at + dice.choice([0, 5, 1_000, 6_000]), {**item, "content": {"other": True}}
    if dice.random() < 0.03 and sequence:
        lower = {**item, "event_id": item["event_id"] + "l", "sequence": dice.randrange(sequence)}
        yield at + dice.choice([0, 500]), lower


def _long_session(dice: random.Random, tenant: str, name: str, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some of its events come again soon, and some after hundreds of others."""
    for n in range(600):
        fields: dict[str, Any] = {
            "tenant_id": tenant,
            "event_type": "command_exec",
            "content": {"command": f"make {n}"},
        }
        item = event(name, n, at=START_MS + start + 5 * n, **fields)
        yield start + 5 * n, item
        if n % 50 == 0:
            yield start + 5 * (n + dice.choice([10, 250, 258, 300])), item


def _record(dice: random.Random, at: int, item: dict[str, Any]) -> Sent:
    return Sent(at, orjson.dumps(item), item, astray=dice.random() < 0.04)


def _invalid(dice: random.Random, at: int, number: int) -> Sent:
    name = f"bad-{number}"
    whole = event(name)
    reason, value = dice.choice(
        [
            ("null_value", None),
            ("not_json", b'{"event_id": "%s"' % name.encode()),
            ("not_utf8", b'{"event_id": "%s\xff"}' % name.encode()),
            ("missing_field", orjson.dumps({field: whole[field] for field in whole if field != "agent_id"})),
            ("wrong_type", orjson.dumps({**whole, "content": []})),
            ("bad_sequence", orjson.dumps({**whole, "sequence": -1})),
            ("reserved", orjson.dumps({**whole, "tenant_id": "_hmx", "event_type": "x-hmx-tick"})),
        ]
    )
    return Sent(at, value, reason=reason)


def _stamp(dice: random.Random, ms: int, nanoseconds: int) -> str:
    """The same kind of moment as different producers write it."""
    zone = timezone(timedelta(minutes=dice.choice([0, 0, 0, -600, 330, 840])))
    text = datetime.fromtimestamp(ms // 1000, UTC).astimezone(zone).isoformat()
    whole, offset = text[:19], text[19:]
    fraction = dice.choice(["", f".{ms % 1000:03d}", f".{ms % 1000:03d}{nanoseconds:06d}"])
    return whole + fraction + (dice.choice(["Z", "z", offset]) if offset == "+00:00" else offset)


def _shifted(timestamp: str, by: timedelta) -> str:
    return (datetime.fromisoformat(timestamp.upper()) + by).isoformat()


def lay_out(sent: Iterable[Sent], partitions: int, dice: random.Random) -> dict[int, list[LogRecord]]:
    """On an injected clock: append times that sometimes go backwards, and the copies of what went astray."""
    standing: dict[int, list[tuple[int, Sent, list[tuple[str, bytes]]]]] = defaultdict(list)
    for record in sent:
        if record.event is None:
            for partition in range(partitions) if record.control else [dice.randrange(partitions)]:
                standing[partition].append((record.at, record, []))
            continue
        home = partition_of(record.key, partitions)
        if not record.astray or partitions == 1:
            standing[home].append((record.at, record, []))
            continue
        wrong = (home + dice.randrange(1, partitions)) % partitions
        standing[wrong].append((record.at, record, []))
        mark = reroute_header(KEY, wrong, 0, record.value or b"")  # signed; from which offset doesn't matter
        for _ in range(dice.choice([1, 1, 1, 2])):  # after a crash a second copy
            place = home if dice.random() < 0.95 else wrong
            standing[place].append((record.at + dice.randrange(1, 800), record, [mark]))
    return {
        partition: _log(partition, sorted(rows, key=lambda row: row[0]), dice) for partition, rows in standing.items()
    }


def _log(partition: int, rows: list[tuple[int, Sent, list[tuple[str, bytes]]]], dice: random.Random) -> list[LogRecord]:
    log = []
    for offset, (planned, record, headers) in enumerate(rows):
        at = planned - (dice.choice([1, 700, 7_000]) if dice.random() < 0.02 else 0)
        if record.control:
            log.append(control(record.control, at, partition, offset, record.value))
        else:
            log.append(LogRecord(partition, offset, START_MS + at, b"any", record.value, headers))
    return log


def control(kind: str, at: int, partition: int, offset: int, value: bytes | None = None) -> LogRecord:
    """A barrier's id is its offset; any other control record comes as its value."""
    if value is not None:
        return signed(value, partition, offset, at)
    if kind == "tick":
        return tick_record(at, partition, offset)
    return barrier_record(at, partition, offset, barrier_id=str(offset))


def controls(dice: random.Random, seconds: float, count: int) -> list[Sent]:
    return [Sent(dice.randrange(int(seconds * 1_000)), control=dice.choice(["tick", "barrier"])) for _ in range(count)]


def returning(dice: random.Random, sent: list[Sent]) -> list[Sent]:
    """The same records a day later, to the millisecond or not: sessions are forgotten by then, or not."""
    late = [record._replace(at=record.at + DAY_MS + dice.choice([-8_000, -1, 0, 1, 8_000])) for record in sent]
    return [*sent, *sorted(late, key=lambda record: record.at)]
