"""From a session's last event until its rule, its fact and its correction are in a pack, at 1,000 events a second.

The traffic is that of `freshness`. Beside it a short session ends every quarter of a second: its user states a rule and
a fact and corrects an action, each with a word of its own. A pack is assembled for it until all three are in it.
"""

import threading
import time
from typing import Any

import orjson
from confluent_kafka import Message

from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.options import SourceType
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.bench.freshness import LOOK_S, LOST_S, RATE, SECONDS, Traffic
from tests.bench.kit import Bench, quantile
from tests.bench.report import Bar, Line
from tests.support.memory import Memory
from tests.support.pipeline import running

EVERY_S = 0.25
TENANT = "learner"
LETTERS = "bcdfghklmnprstvwz"
WANTED = {"rule": "Never deploy the {}", "fact": "{} service runs on", "correction": "not on {}"}
KNOWN = (SourceType.POLICY, SourceType.MEMORY)
P50_MS, P99_MS = 1_000, 3_000


def learning(bench: Bench) -> list[Line]:
    seen: list[list[float]] = []
    bare: list[list[float]] = []
    with bench.topics() as settings, running(settings, bench.folder, "worker", "materialiser"):
        traffic, sessions = Traffic(settings), Sessions(settings)
        traffic.beside(2)
        sessions.round(1)  # warms up
        for _ in bench.rounds():
            loaded = threading.Thread(target=lambda: bare.append(traffic.beside(SECONDS)))
            loaded.start()
            seen.append(sessions.round(SECONDS))
            loaded.join()
    name = f"last event to rule, fact and correction in a pack, {RATE:,}/s"
    return [
        Line(
            f"{name}, p{share}",
            "ms",
            [quantile(each, share) for each in seen],
            "bare consumer",
            [quantile(each, share) for each in bare],
            Bar("≤", limit, ratio=False),
            notes={"probes": sum(map(len, seen)), **sessions.medians()},
        )
        for share, limit in ((50, P50_MS), (99, P99_MS))
    ]


class Sessions:
    def __init__(self, settings: Settings) -> None:
        self._topic = settings.topic_prefix + EVENTS
        self._producer = plain_producer(settings.kafka_bootstrap, **{"linger.ms": 0})
        self._memory = Memory(settings.redis_url, settings.topic_prefix)
        self._number = 0
        self._ended: dict[str, int] = {}
        """Word of each session → append time of its last event, milliseconds."""
        self._parts: dict[str, dict[str, float]] = {}
        """Word of each session → of what is in a pack, the milliseconds that it took."""

    def round(self, seconds: float) -> list[float]:
        """Milliseconds until all three are in a pack, of each session."""
        self._ended, done = {}, dict[str, float]()
        sessions = int(seconds / EVERY_S)
        sender = threading.Thread(target=self._send, args=(sessions,))
        sender.start()
        deadline = time.monotonic() + seconds + LOST_S
        while len(done) < sessions:
            assert time.monotonic() < deadline, f"{sessions - len(done)} of {sessions} sessions taught nothing"
            for word, ended in list(self._ended.items()):
                if word not in done and len(parts := self._look(word, ended)) == len(WANTED):
                    done[word] = max(parts.values())
            time.sleep(LOOK_S)
        sender.join()
        return list(done.values())

    def _look(self, word: str, ended: int) -> dict[str, float]:
        """In packs for one who is about to do the same, and asks where it is."""
        query = f"deploy the {word} service with {word}ctl apply; where does the {word} service run?"
        entries = self._memory.pack(query, tenant=TENANT).entries
        told = " | ".join(entry.content for entry in entries if entry.source_type in KNOWN).casefold()
        parts = self._parts.setdefault(word, {})
        for name, text in WANTED.items():
            if text.format(word).casefold() in told:
                parts.setdefault(name, time.time() * 1_000 - ended)
        return parts

    def medians(self) -> dict[str, float]:
        """Of each kind alone."""
        return {name: round(quantile([parts[name] for parts in self._parts.values()], 50)) for name in WANTED}

    def _send(self, sessions: int) -> None:
        for _ in range(sessions):
            self._number += 1
            word = "kiln" + "".join(LETTERS[self._number // 17**n % 17] for n in range(3))
            events = _session(f"learns-{self._number}", word)
            for event in events:
                last = self._delivered if event is events[-1] else None
                key = session_key(TENANT, event["session_id"])
                self._producer.produce(self._topic, orjson.dumps(event), key, on_delivery=last)
            self._producer.flush(10)
            time.sleep(EVERY_S)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        word = str(orjson.loads(message.value() or b"{}")["event_id"]).partition("/")[0]
        self._ended[word] = message.timestamp()[1]


def _session(name: str, word: str) -> list[dict[str, Any]]:
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": f"Never deploy the {word} service on Fridays."}),
        ("message", {"role": "user", "text": f"The {word} service runs on Nomad."}),
        ("command_exec", {"command": f"{word}ctl apply --force", "exit_code": 0}),
        ("feedback", {"signal": "correction", "comment": f"no force, not on {word}", "target_event_id": f"{word}/2"}),
        ("state_change", {"old_state": "open", "new_state": "session_ended"}),
    ]
    now = int(time.time() * 1_000)
    return [
        {
            "hmx_version": "HMX-1.0",
            "event_id": f"{word}/{n}",
            "event_type": kind,
            "agent_id": "agent-1",
            "tenant_id": TENANT,
            "session_id": name,
            "timestamp": format_ms(now + n),
            "sequence": n,
            "content": content,
            "metadata": {},
        }
        for n, (kind, content) in enumerate(said)
    ]
