"""Operators at work under fire: people, sessions and small tenants are erased through the service, records ruled on,
and tenants forget by policies that commands set.

Enters: the site and a seed. Leaves: an `Erasing` for each that was asked for, with its canary word and the receipt if
one came. Whatever is erased has a word of its own in its events, its session's name and its subject's; bystanders have
none. What a policy takes has its word in its events alone. Each request is sent again until it is answered, as a client
would.
"""

import itertools
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import orjson

from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.clients import plain_producer
from tests.harness.fleet import HarnessError
from tests.harness.producer import DELIVERY_MS, Acknowledged
from tests.harness.site import Site
from tests.support.canaries import session as telling
from tests.support.pipeline import environment

SCOPES: Final = ("subject", "session", "tenant", "retention")
POLICIES: Final = (
    "all:30d", "episodes:30d,artifacts:30d,knowledge:30d", "all:30d,message:7d,knowledge:7d", "sessions:2",
)  # fmt: skip
"""Each takes what is 90 days old; some take a part of what is ten days old."""
DAY_MS: Final = 86_400_000
PAUSE_S: Final = (0.2, 2.0)
PATIENCE_S: Final = 150.0
"""Longer than any fault keeps the service or memory from answering."""
ANSWER_S: Final = 30.0
LETTERS: Final = "bcdfghklmnprstvw"
Json = dict[str, Any]


@dataclass
class Erasing:
    word: str
    tenant: str
    what: Json
    """As it was asked for."""
    events: list[str]
    records: list[str] = field(default_factory=list)
    """Ids of the knowledge that named the word before."""
    receipt: Json | None = None
    accepted: bool = False


class Operators:
    """One for each scope, in a thread of its own."""

    def __init__(self, site: Site, seed: int, acknowledged: Acknowledged) -> None:
        self._site = site
        self._seed = seed
        self._acknowledged = acknowledged
        self._producer = plain_producer(
            site.settings.kafka_bootstrap, **{"delivery.timeout.ms": DELIVERY_MS, "linger.ms": 5, "log_level": 0}
        )
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, args=(at,), name=scope, daemon=True) for at, scope in enumerate(SCOPES)
        ]
        self._numbers = itertools.count()
        self._failures: list[BaseException] = []
        self.erased: list[Erasing] = []
        self.retained: list[Erasing] = []
        """What a tenant's policies take."""
        self.ruled: Counter[str] = Counter()

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Returns when what was begun is answered. Raises HarnessError."""
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._check()

    def once_more(self) -> None:
        """At rest, where every erasure is answered with its receipt. Raises HarnessError."""
        before = len(self.erased)
        for at in range(len(SCOPES)):
            self._work(at)
        self._check()
        if lacking := [one.what for one in self.erased[before:] if one.receipt is None]:
            raise HarnessError(f"at rest there is no receipt for {lacking}")

    def _check(self) -> None:
        if self._failures:
            raise HarnessError(f"an operator ended: {self._failures[0]!r}") from self._failures[0]

    def _work(self, at: int) -> None:
        """Until closed, and once at least."""
        dice = random.Random(f"{self._seed}/{SCOPES[at]}/{self._closing.is_set()}")
        try:
            with httpx.Client(base_url=self._site.service_url, timeout=ANSWER_S) as client:
                while True:
                    (self._retain if SCOPES[at] == "retention" else self._round)(client, dice, SCOPES[at])
                    if self._closing.wait(dice.uniform(*PAUSE_S)):
                        return
        except Exception as error:  # noqa: BLE001 - carried to whoever closes
            self._failures.append(error)

    def _round(self, client: httpx.Client, dice: random.Random, scope: str) -> None:
        number = next(self._numbers)
        word = _word(number)
        tenant = f"small-{number}" if scope == "tenant" else f"people-{number // 6}"
        named = dice.random() < 0.5
        canaries = _sessions(tenant, f"of-{word}", word, f"session-{word}", named=named)
        self._publish([*canaries, *_bystander(tenant, number)])
        what: Json = {
            "subject": {"subject": f"of-{word}"}, "session": {"session": canaries[0]["session_id"]},
            "tenant": {"all": True},
        }[scope]  # fmt: skip
        own = f"{word}first" if scope == "session" else word  # of the other session everything stays
        erasing = Erasing(own, tenant, what, [one["event_id"] for one in canaries if own in one["session_id"]])
        headers = {"X-HMX-Tenant": tenant}
        # An event that names nobody is its subject's once another has. If all do, memory need not know them all.
        for event_id in erasing.events[: 1 if named else None]:
            self._asked(lambda at=event_id: client.get(f"/v1/hmx/events/{at}", headers=headers), "an event")
        answer = self._asked(lambda: client.get("/v1/hmx/knowledge", headers=headers, params={"text": own}), "")
        erasing.records = [record["record_id"] for record in answer.json()["records"]]
        self._rule(client, dice, headers, word)
        self.erased.append(erasing)
        self._erase(client, erasing, headers)
        gone = [one for one in canaries if one["event_id"] in erasing.events]
        self._publish([gone[1], {**gone[2], "event_id": f"{gone[2]['event_id']}-late", "sequence": 99}])

    def _retain(self, client: httpx.Client, dice: random.Random, _: str) -> None:
        """A tenant's policies take what is old, and what comes of that time afterwards; what is new stays."""
        number = next(self._numbers)
        word, tenant, policy = _word(number), f"ageing-{number}", dice.choice(POLICIES)
        named, headers = dice.random() < 0.5, {"X-HMX-Tenant": tenant}
        aged = _sessions(tenant, f"elder-{number}", word, f"aged-{number}", named=named, age_ms=90 * DAY_MS)
        newer, new = _bystander(tenant, number, 10 * DAY_MS), _bystander(tenant, number)
        self._publish([*aged, *newer, *new])
        for at in {one["session_id"]: one["event_id"] for one in (*aged, *newer, *new)}.values():  # each's last
            self._asked(lambda at=at: client.get(f"/v1/hmx/events/{at}", headers=headers), "an event")
        self._rule(client, dice, headers, word)
        what = {"subject": f"elder-{number}", "session": aged[0]["session_id"], "policy": policy}
        self.retained.append(Erasing(word, tenant, what, [one["event_id"] for one in aged]))
        self._commanded("tenant", "set", tenant, f"retention={policy}")
        while "sessions" in policy and not self._has_left(tenant, newer[0]["timestamp"]):  # of a memory that is whole
            self._commanded("retention", "apply", tenant)
        self._publish([aged[1], {**aged[2], "event_id": f"{aged[2]['event_id']}-late", "sequence": 99}])

    def _has_left(self, tenant: str, before: str) -> bool:
        told = orjson.loads(self._commanded("retention", "plan", tenant, "--json"))
        return told["before"].get("sessions", "") >= before and not told["leaves"]

    def _commanded(self, *arguments: str) -> str:
        deadline = time.monotonic() + PATIENCE_S
        command = (sys.executable, "-m", "hmx_pipeline.cli", *arguments)
        while time.monotonic() < deadline:
            ran = subprocess.run(command, env=environment(self._site.settings), capture_output=True, check=False)
            if ran.returncode == 0:
                return ran.stdout.decode()
            time.sleep(1.0)
        raise HarnessError(f"{' '.join(arguments)} did not succeed: {(ran.stdout + ran.stderr)[-300:]!r}")

    def _publish(self, events: list[Json]) -> None:
        for one in events:
            key = session_key(one["tenant_id"], one["session_id"])
            self._producer.produce(self._site.events, orjson.dumps(one), key, on_delivery=self._acknowledged)
        if self._producer.flush(2 * DELIVERY_MS / 1_000):
            raise HarnessError("canaries are not acknowledged")

    def _asked(self, ask: Callable[[], httpx.Response], missing: str) -> httpx.Response:
        """`missing`: what a 404 says is not there yet."""
        deadline, last = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < deadline:
            try:
                answer = ask()
            except httpx.TransportError as error:
                last = repr(error)
            else:
                if (
                    answer.status_code < 500
                    and answer.status_code != 429
                    and (answer.status_code != 404 or not missing)
                ):
                    return answer
                last = answer.text
            time.sleep(0.2)
        raise HarnessError(f"{missing or 'an answer'} did not come: {last[:300]}")

    def _erase(self, client: httpx.Client, erasing: Erasing, headers: dict[str, str]) -> None:
        asked = 0

        def ask() -> httpx.Response:
            nonlocal asked
            asked += 1
            return client.post("/v1/hmx/erasures", json=erasing.what, headers=headers)

        answer = self._asked(ask, "")
        if answer.status_code == 200:
            erasing.receipt = answer.json()
        elif answer.status_code not in (202, 404) or (answer.status_code == 404 and asked == 1):
            raise HarnessError(f"{erasing.what} of {erasing.tenant} is not erased: {answer.text[:300]}")
        erasing.accepted = True

    def _rule(self, client: httpx.Client, dice: random.Random, headers: dict[str, str], word: str) -> None:
        """On a bystander's record, so that it stands afterwards."""
        answer = self._asked(lambda: client.get("/v1/hmx/knowledge", headers=headers, params={"kind": "memory"}), "")
        others = [one for one in answer.json()["records"] if word not in orjson.dumps(one).decode()]
        if not others:
            return
        record, verb = dice.choice(others), dice.choice(["confirm", "correct", "retract"])
        room = f"room {dice.randrange(90)}"
        body = {"text": f"The staging cluster is in {room}.", "value": room} if verb == "correct" else {}
        path = f"/v1/hmx/knowledge/{record['record_id']}/{verb}"
        answer = self._asked(lambda: client.post(path, headers=headers, json=body), "")
        self.ruled[verb if answer.status_code == 202 else "refused"] += 1


def _word(number: int) -> str:
    return f"zebra{LETTERS[number // 16 % 16]}{LETTERS[number % 16]}wood"


def _sessions(tenant: str, subject: str, word: str, prefix: str, *, named: bool, age_ms: int = 0) -> list[Json]:
    """Two sessions full of the word; if not `named`, the subject is named by all events but each session's first."""
    told: list[Json] = []
    for nth, place in enumerate(("first", "second")):
        own, name = f"{word}{place}", f"{prefix}{place}"
        events = telling(nth, subject, own)
        for text in (f"My {own} desk is in room four.", f"Never sell the {own} chair.", f"We use {own} for billing."):
            events.append({**events[0], "content": {"role": "user", "text": text}})
        now = int(time.time() * 1_000) - age_ms
        for n, one in enumerate(events):
            whose = one["metadata"] if n or named else {}
            told.append(
                {**one, "tenant_id": tenant, "session_id": name, "event_id": f"{name}-{n}", "sequence": n,
                 "timestamp": format_ms(now - 1_000 + n), "metadata": whose}
            )  # fmt: skip
    return told


def _bystander(tenant: str, number: int, age_ms: int = 0) -> list[Json]:
    """Somebody whose memory stays, with much the same to do."""
    events = telling(number, f"bystander-{number % 3}", f"amber{number}")
    events.append({**events[0], "content": {"role": "user", "text": "The staging cluster is in Frankfurt."}})
    now = int(time.time() * 1_000) - age_ms
    name = f"stays-{number}" if not age_ms else f"older-{number}"
    return [
        {**one, "tenant_id": tenant, "session_id": name, "event_id": f"{name}-{n}", "sequence": n,
         "timestamp": format_ms(now - 1_000 + n)}
        for n, one in enumerate(events)
    ]  # fmt: skip
