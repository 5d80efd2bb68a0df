"""Fingerprints are dear: few are made at once, and none on the event loop."""

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from hmx_pipeline.service import fingerprint_routes
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.fingerprint_routes import AT_ONCE, AT_ONCE_EACH, FingerprintRequest


def test_few_fingerprints_are_made_at_once_and_none_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    making: list[int] = []
    most, threads = 0, set()

    class Made:
        def to_json(self) -> bytes:
            threads.add(threading.get_ident())
            making.pop()
            return b"made"

    def make(*_: Any) -> Made:
        nonlocal most
        making.append(1)
        most = max(most, len(making))
        time.sleep(0.01)
        return Made()

    monkeypatch.setattr(fingerprint_routes, "make_fingerprint", make)

    async def asked() -> list[bytes]:
        state = SimpleNamespace(store=None, fingerprints=FairTurns(AT_ONCE, AT_ONCE_EACH))
        request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
        asks = (fingerprint_routes.fingerprint_json(request, f"tenant {n % 4}", FingerprintRequest()) for n in range(8))
        return await asyncio.gather(*asks)

    assert asyncio.run(asked()) == [b"made"] * 8
    assert most == AT_ONCE
    assert threading.get_ident() not in threads
