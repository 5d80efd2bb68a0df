"""Redis as it is: every key of one pipeline, read with the client library alone.

Spelled here by the documented layout: keys begin with the percent-encoded prefix, `hmx:` and the layout's version.
Enters: a URL. Leaves: `Memory`. Fails as the client does.
"""

from collections import Counter
from typing import Any, Final
from urllib.parse import quote

import redis

VERSION: Final = "15.4"
"""Of the layout, and of the terms."""
Value = bytes | dict[bytes, bytes] | frozenset[bytes] | dict[bytes, float]
Memory = dict[bytes, Value]
_PAGE: Final = 2_000


def root_of(prefix: str) -> str:
    return f"{quote(prefix, safe='')}hmx:{VERSION}"


def read_memory(url: str, prefix: str) -> Memory:
    """Key → value; a sorted set is a dict of scores, a list its parts as one; of an event id a zero byte
    follows each, and of whose sessions are it is a dict of counts."""
    client: Any = redis.Redis.from_url(url, decode_responses=False, socket_timeout=60)
    try:
        keys = list(set(client.scan_iter(match=_literally(root_of(prefix)) + "*", count=_PAGE)))
        memory: Memory = {}
        for start in range(0, len(keys), _PAGE):
            memory.update(read_page(client, keys[start : start + _PAGE]))
        return memory
    finally:
        client.close()


def read_page(client: Any, keys: list[bytes]) -> Memory:
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.type(key)
        kinds = pipe.execute()
        for key, kind in zip(keys, kinds, strict=True):
            match kind:
                case b"string":
                    pipe.get(key)
                case b"hash":
                    pipe.hgetall(key)
                case b"set":
                    pipe.smembers(key)
                case b"list":
                    pipe.lrange(key, 0, -1)
                case _:
                    pipe.zrange(key, 0, -1, withscores=True)
        values = pipe.execute()
    return {key: _plain(key, kind, value) for key, kind, value in zip(keys, kinds, values, strict=True)}


def _plain(key: bytes, kind: bytes, value: Any) -> Value:
    if kind == b"zset":
        return dict(value)
    if key.endswith(b"}:assigned"):
        return {part: b"%d" % count for part, count in Counter(value).items()}
    if kind == b"list":
        end = b"\0" if b"}:event:" in key else b""
        return b"".join(part + end for part in value)
    return frozenset(value) if kind == b"set" else value


def _literally(text: str) -> str:
    """As a pattern that matches nothing else."""
    return "".join(f"\\{character}" if character in "*?[]\\" else character for character in text)
