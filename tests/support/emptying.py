"""Redis without what one pipeline keeps there, as an operator's FLUSHALL would leave it."""

from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import connect

_DELETE = "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end"


def empty(settings: Settings) -> None:
    """In one step; other pipelines on the same server keep theirs."""
    client = connect(settings.redis_url)
    client.eval(_DELETE, 0, f"{settings.topic_prefix}*")
    client.close()
