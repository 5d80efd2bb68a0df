"""A record that a stage emits; its topic is without the installation's prefix."""

import msgspec

from hmx_pipeline.contracts.headers import Headers


class Output(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
