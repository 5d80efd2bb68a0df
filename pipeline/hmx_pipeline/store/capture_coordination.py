"""Capture coordination in Redis: which process may append to a session, and which events were appended lately.

One process at a time appends captures to a session, so its sequences rise in the log. Enters: a process token and
sessions. Leaves: the first sequence for each, above all earlier ones and at least Redis' time, even if Redis was
emptied. Waiting processes go before returning ones. A dead process holds its sessions for HELD_MS. After Redis was
emptied, all wait EMPTIED_MS once, so that earlier holders have finished. Raises StoreUnavailableError.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from hmx_pipeline.contracts.limits import SESSION_FORGOTTEN_MS
from hmx_pipeline.store.atomic_blocks import Client, DamagedError, reachable
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.servers import Shared

HELD_MS: Final = 12_000
"""Longer than an append may take: by then it is in the log or has failed."""
WAITED_MS: Final = 100
"""A waiting process keeps its place this long unless it asks again."""
EMPTIED_MS: Final = 500
_US: Final = 1_000

_ENTER: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local me, held, waited, emptied = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('SET', KEYS[1], string.format('%.0f', now + emptied), 'NX')
if now < tonumber(redis.call('GET', KEYS[1])) then return {} end
local busy, awaited, mine = false, false, true
for i = 2, #KEYS do
  local had = redis.call('HMGET', KEYS[i], 'by', 'until', 'next', 'next_until')
  local held_by = had[1] and tonumber(had[2]) > now and had[1]
  busy = busy or (held_by and held_by ~= me)
  awaited = awaited or (had[3] and had[3] ~= me and tonumber(had[4]) > now)
  mine = mine and held_by == me
end
if busy or (awaited and not mine) then
  for i = 2, #KEYS do
    if not awaited then redis.call('HSET', KEYS[i], 'next', me, 'next_until', string.format('%.0f', now + waited)) end
    redis.call('PEXPIRE', KEYS[i], ARGV[6])
  end
  return {}
end
local least = math.floor((now / 1000 - tonumber(ARGV[5])) * 4096)
local first = {}
for i = 2, #KEYS do
  local last = tonumber(redis.call('HGET', KEYS[i], 'last') or '0')
  first[#first + 1] = string.format('%.0f', math.max(last + 1, least))
  redis.call('HSET', KEYS[i], 'by', me, 'until', string.format('%.0f', now + held))
  redis.call('HDEL', KEYS[i], 'next', 'next_until')
  redis.call('PEXPIRE', KEYS[i], ARGV[6])
end
return first
"""
_LEAVE: Final = """
for i = 1, #KEYS do
  if redis.call('HGET', KEYS[i], 'by') == ARGV[1] then
    redis.call('HDEL', KEYS[i], 'by', 'until')
    redis.call('HSET', KEYS[i], 'last', ARGV[i + 1])
  end
end
"""


class CaptureCoordination:
    """Thread-safe. Sequences count from `epoch_ms`, 4,096 per millisecond."""

    def __init__(self, clients: Shared[Client], keys: Keys, epoch_ms: int) -> None:
        self._clients = clients
        self._keys = keys
        self._epoch_ms = epoch_ms
        self._enter = clients.all[0].register_script(_ENTER)
        self._leave = clients.all[0].register_script(_LEAVE)

    def enter(self, tenant_id: str, token: str, sessions: Sequence[str]) -> dict[str, int]:
        """Holds the sessions and returns the first sequence of each; empty if another process holds one."""
        tenant, client = self._keys.tenant(tenant_id), self._clients.of(tenant_id)
        keys = [self._keys.capturing, *map(tenant.captures, sessions)]
        times = (HELD_MS * _US, WAITED_MS * _US, EMPTIED_MS * _US, self._epoch_ms, SESSION_FORGOTTEN_MS)
        try:
            with reachable():
                first = self._enter(keys=keys, args=[token, *times], client=client)
        except DamagedError:  # a key of another type: treat as just emptied
            with reachable():
                client.delete(*keys)
            return {}
        return {session: int(at) for session, at in zip(sessions, first, strict=False)}

    def leave(self, tenant_id: str, token: str, last: Mapping[str, int]) -> None:
        """Releases sessions; `last` is the highest sequence used in each."""
        tenant = self._keys.tenant(tenant_id)
        with reachable():
            keys, args = list(map(tenant.captures, last)), [token, *last.values()]
            self._leave(keys=keys, args=args, client=self._clients.of(tenant_id))

    def appended(self, tenant_id: str, event_ids: Sequence[str]) -> None:
        """Notes events that are in the log."""
        tenant = self._keys.tenant(tenant_id)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for event_id in event_ids:
                pipe.set(tenant.captured(event_id), b"", px=SESSION_FORGOTTEN_MS)
            pipe.execute()

    def known(self, tenant_id: str, event_ids: Sequence[str]) -> list[bool]:
        """Returns whether each event was appended lately by any process."""
        tenant = self._keys.tenant(tenant_id)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for event_id in event_ids:
                pipe.exists(tenant.captured(event_id))
            return [bool(found) for found in pipe.execute()]
