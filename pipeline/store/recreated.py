"""Which topics memory was filled from: their ids stand beside the positions. A topic that was deleted and created again
begins anew under the same name, and may be longer than the old one by now.

Enters: topics and their ids as the cluster has them. Leaves: memory without what came from a topic that is no more, in
one go, as if Redis had been emptied of it: whoever writes a block at that moment changes nothing, and reads again from
the start. Fails: StoreUnavailableError.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.store.blocks import Client, reachable
from pipeline.store.keys import KINDS, Keys

# KEYS: topics, positions, tenants, filling. ARGV: topic, its id now, root of all keys, the kinds of keys that it fills.
# The server answers nobody meanwhile, some seconds where memory is large: this happens when somebody deletes a topic.
_SCRIPT: Final = """
local known = redis.call('HGET', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
if not known or known == ARGV[2] then return 0 end
redis.call('DEL', KEYS[4])
local own, from, root = {}, ARGV[1] .. '/', ARGV[3] .. ':'
for i = 4, #ARGV do own[ARGV[i]] = true end
local function drop(hash)
  if redis.call('TYPE', hash).ok ~= 'hash' then return redis.call('UNLINK', hash) end
  for _, field in ipairs(redis.call('HKEYS', hash)) do
    if field:sub(1, #from) == from then
      redis.call('HDEL', hash, field)
      if hash == KEYS[2] then redis.call('DEL', root .. 'guard:' .. field) end
    end
  end
end
drop(KEYS[2])
local cursor = '0'
repeat
  local found = redis.call('SCAN', cursor, 'MATCH', root .. '{*', 'COUNT', 1000)
  cursor = found[1]
  for _, key in ipairs(found[2]) do
    local tenant, kind = key:sub(#root + 1):match('^{([^}]*)}:([^:]*)')
    if own[kind] then
      redis.call('UNLINK', key)
    elseif kind == 'version' then
      drop(key)
      if redis.call('EXISTS', key) == 0 then
        local name = tenant:gsub('%%(%x%x)', function(code) return string.char(tonumber(code, 16)) end)
        redis.call('SREM', KEYS[3], name)
      end
    end
  end
until cursor == '0'
return 1
"""


def forget_damaged(
    client: Client, keys: Keys, topic_ids: Mapping[str, str], partitions: Iterable[str], kinds: Iterable[str]
) -> None:
    """All of memory, as if every topic had been created again: it is filled anew. Readers are told meanwhile, and which
    kinds of keys were damaged."""
    with reachable(), client.pipeline(transaction=True) as pipe:
        pipe.delete(keys.goals, keys.positions, keys.topics, keys.tenants, *map(keys.guard, partitions))
        pipe.hset(keys.topics, mapping=dict.fromkeys(topic_ids, b"damaged"))
        pipe.delete(keys.damaged).sadd(keys.damaged, *kinds)
        pipe.execute()
    forget_recreated(client, keys, topic_ids)


def forget_recreated(client: Client, keys: Keys, topic_ids: Mapping[str, str]) -> list[str]:
    """The topics that memory was filled from another one of, of which nothing is left now."""
    script = client.register_script(_SCRIPT)
    own = [keys.topics, keys.positions, keys.tenants, keys.filling]
    with reachable():
        return [
            topic
            for topic, topic_id in topic_ids.items()
            if script(keys=own, args=[topic, topic_id, keys.root, *KINDS[topic]])
        ]
