"""Questions to one tenant wait for each other, but not for ever."""

from typing import Any

import pytest

from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store import search, tenant_index
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.redis_keys import Keys


def test_who_waits_too_long_for_another_question_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenant_index, "WAIT_S", 0.01)
    client: Any = None
    keys = Keys("t-")
    looking = search.Search(client, keys)
    lock = looking.views.of(keys.tenant("acme").root).lock
    with lock, pytest.raises(StoreUnavailableError, match="wait"):
        looking.fetch(plan(PackRequest(query="deploy", tenant_id="acme")))
    assert not lock.locked()
