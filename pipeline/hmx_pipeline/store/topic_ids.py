"""Recreated topics and damaged memory: deletes what came from a topic that was made anew, or all after damage.

Enters: current topic ids; those that memory was filled from are stored beside the positions. Leaves: the names of
recreated topics, and memory as if Redis had never held the old data, so a refill starts. Keys are deleted in pages, so
that Redis stays responsive, and under a lock. If the process dies, the next one continues. Raises
StoreUnavailableError, also while another process holds the lock.
"""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hmx_pipeline.store.atomic_blocks import Client, StoreUnavailableError, reachable
from hmx_pipeline.store.redis_keys import KINDS, Keys

LOCK_S: Final = 30
"""The lock expires this long after the last page."""
PAGE: Final = 1_000
"""Keys examined per call; takes milliseconds."""
_CLEARING: Final = b"clearing"
"""Stands for a topic's id while its data is being deleted."""

# KEYS: lock, topics, positions, filling. ARGV: token, seconds that the lock holds, start of guard keys, topics.
# Positions go first and together, so readers learn at once that memory is incomplete.
_BEGIN: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('DEL', KEYS[4])
local found = 0
if redis.call('TYPE', KEYS[3]).ok ~= 'hash' then redis.call('UNLINK', KEYS[3]) end
for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
  for i = 4, #ARGV do
    if field:sub(1, #ARGV[i] + 1) == ARGV[i] .. '/' then
      redis.call('HDEL', KEYS[3], field)
      redis.call('DEL', ARGV[3] .. field)
      found = found + 1
    end
  end
end
for i = 4, #ARGV do redis.call('HSET', KEYS[2], ARGV[i], 'clearing') end
return found
"""

# KEYS: lock. ARGV: token, seconds that the lock holds, root, page, cursor, number of topics, topics, kinds.
_CLEAR: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
local root, kinds = ARGV[3] .. ':', {}
for i = 7 + ARGV[6], #ARGV do kinds[ARGV[i]] = true end
local function drop(hash)
  if redis.call('TYPE', hash).ok ~= 'hash' then return redis.call('UNLINK', hash) end
  for _, field in ipairs(redis.call('HKEYS', hash)) do
    for i = 7, 6 + ARGV[6] do
      if field:sub(1, #ARGV[i] + 1) == ARGV[i] .. '/' then redis.call('HDEL', hash, field) end
    end
  end
end
local found = redis.call('SCAN', ARGV[5], 'MATCH', root .. '{*', 'COUNT', ARGV[4])
for _, key in ipairs(found[2]) do
  local kind = key:sub(#root + 1):match('^{[^}]*}:([^:]*)')
  if kinds[kind] then
    redis.call('UNLINK', key)
  elseif kind == 'version' then
    drop(key)
  end
end
return found[1]
"""

# KEYS: tenants, a tenant's versions. ARGV: the tenant. A hashed name in a key does not tell the tenant.
_UNLIST: Final = """
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('SREM', KEYS[1], ARGV[1]) end
"""

# KEYS: lock, topics. ARGV: token, topic, id, topic, id, ...
_END: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('HSET', KEYS[2], unpack(ARGV, 2))
redis.call('DEL', KEYS[1])
return 0
"""


def forget_damaged(
    client: Client, keys: Keys, topic_ids: Mapping[str, str], partitions: Iterable[str], kinds: Iterable[str]
) -> None:
    """Deletes all of memory for a rebuild, and records which kinds of keys were damaged."""
    with reachable(), client.pipeline(transaction=True) as pipe:
        pipe.delete(keys.goals, keys.positions, keys.topics, keys.tenants, *map(keys.guard, partitions))
        pipe.hset(keys.topics, mapping=dict.fromkeys(topic_ids, _CLEARING))
        pipe.delete(keys.damaged).sadd(keys.damaged, *kinds)
        pipe.execute()
    forget_recreated(client, keys, topic_ids)


def forget_recreated(client: Client, keys: Keys, topic_ids: Mapping[str, str]) -> list[str]:
    """Deletes data of recreated topics; returns their names."""
    with reachable():
        for topic, topic_id in topic_ids.items():
            client.hsetnx(keys.topics, topic, topic_id)
        if not _others(client, keys, topic_ids):
            return []
        token = os.urandom(16).hex().encode()
        if not client.set(keys.forgetting, token, nx=True, ex=LOCK_S):
            raise StoreUnavailableError("another process is deleting data of recreated topics: retrying")
        gone = _others(client, keys, topic_ids)
        if gone:
            _forget(client, keys, token, gone)
        else:  # another process was first
            client.delete(keys.forgetting)
        return list(gone)


def _others(client: Client, keys: Keys, topic_ids: Mapping[str, str]) -> dict[str, str]:
    known = client.hgetall(keys.topics)
    return {topic: topic_id for topic, topic_id in topic_ids.items() if known[topic.encode()] != topic_id.encode()}


def _forget(client: Client, keys: Keys, token: bytes, gone: Mapping[str, str]) -> None:
    begin, clear, unlist, end = map(client.register_script, (_BEGIN, _CLEAR, _UNLIST, _END))
    kinds = [kind for topic in gone for kind in KINDS[topic]]

    def begin_again() -> int:
        marked = [keys.forgetting, keys.topics, keys.positions, keys.filling]
        return int(_held(begin(marked, [token, LOCK_S, keys.guard(""), *gone])))

    def clear_page(cursor: bytes) -> bytes:
        page = [token, LOCK_S, keys.root, PAGE, cursor, len(gone), *gone, *kinds]
        return bytes(_held(clear([keys.forgetting], page)))

    begin_again()
    while True:
        cursor = clear_page(b"0")
        while cursor != b"0":
            cursor = clear_page(cursor)
        # A process unaware of this may have written its first block meanwhile; that must go too.
        if not begin_again():
            break
    for name in client.smembers(keys.tenants):
        unlist([keys.tenants, keys.tenant(name.decode()).version], [name])
    _held(end([keys.forgetting, keys.topics], [token, *(part for pair in gone.items() for part in pair)]))


def _held(answer: Any) -> Any:
    if answer == -1:
        raise StoreUnavailableError("another process continues deleting data of recreated topics: retrying")
    return answer
