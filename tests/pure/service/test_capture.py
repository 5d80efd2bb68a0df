"""What a process remembers of captures: ids of a fixed length, which are a tenant's own."""

import asyncio
from typing import Any

from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.service.hippocortex.capture import Capture, Captures
from hmx_pipeline.service.hippocortex.usage import Usage


class NoStore:
    def capturing(self, _: int) -> None:
        return None


def captured(tenant: str) -> Capture:
    name = keyed_id(tenant, "s" * ID_BYTES, "k" * 10_000)
    return Capture({"session_id": "s" * ID_BYTES, "event_id": name}, keyed=True)


def test_what_is_remembered_of_a_key_has_one_length_and_is_no_other_tenants() -> None:
    async def chosen() -> tuple[list[int], Any]:
        unused: Any = None
        store: Any = NoStore()
        captures = Captures(unused, store, Usage(), unused, unused)
        return [
            len(captures._chosen([captured(tenant)])) for tenant in ("t" * ID_BYTES, "t", "t" * ID_BYTES)
        ], captures._appending

    counts, remembered = asyncio.run(chosen())
    assert counts == [1, 1, 0], "the third is the first once more"
    assert {len(name) for name in remembered} == {36}
