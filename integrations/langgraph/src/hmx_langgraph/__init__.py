"""HMX memory as a LangGraph store: what was learnt stands under one namespace, beside the graph's own items."""

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from langgraph.store.base import BaseStore, GetOp, Item, Op, PutOp, Result, SearchItem, SearchOp
from langgraph.store.memory import InMemoryStore

from hmx_mcp.marking import shown
from hmx_mcp.service import Service, ServiceError
from hmx_mcp.tools import TOOLS, call

NAMESPACE: Final = ("hmx",)
TOKENS: Final = 2_000
_FACTS: Final = ("facts",)
_TEXTS: Final = ("text", "content", "memory")


class HmxStore(BaseStore):
    """What lies under `namespace` is memory; everything else goes to `own`, a store of the graph's.

    Under it `search` asks for what matters to a query, `get` for one record, and `put` records a fact. Nothing there is
    overwritten or deleted. Raises ServiceError if the service does not answer, and ValueError for what it cannot do.
    """

    def __init__(
        self,
        service: Service | None = None,
        own: BaseStore | None = None,
        namespace: tuple[str, ...] = NAMESPACE,
        session: str = "langgraph",
    ) -> None:
        """`service` is by default what HMX_SERVICE_URL, HMX_API_KEY, HMX_TENANT and HMX_SUBJECT name."""
        self._service = (service or Service.of())._replace(session=session)
        self._own = own if own is not None else InMemoryStore()
        self._namespace = namespace

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        listed = list(ops)
        own = iter(self._own.batch([op for op in listed if not self._ours(op)]))
        return [self._answer(op) if self._ours(op) else next(own) for op in listed]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        listed = list(ops)
        own = iter(await self._own.abatch([op for op in listed if not self._ours(op)]))
        return [await asyncio.to_thread(self._answer, op) if self._ours(op) else next(own) for op in listed]

    def _ours(self, op: Op) -> bool:
        named = op.namespace_prefix if isinstance(op, SearchOp) else getattr(op, "namespace", ())
        return tuple(named[: len(self._namespace)]) == self._namespace

    def _answer(self, op: Op) -> Result:
        if isinstance(op, SearchOp):
            return self._found(op)
        if isinstance(op, GetOp):
            return self._fetched(op)
        assert isinstance(op, PutOp)
        self._recorded(op)
        return None

    def _found(self, op: SearchOp) -> list[SearchItem]:
        if op.filter:
            raise ValueError("memory is searched by a query; name a section in the namespace instead of a filter")
        if not op.query:
            return []
        asked: dict[str, Any] = {"query": op.query, "token_budget": TOKENS}
        now, wanted = datetime.now(UTC), op.namespace_prefix[len(self._namespace) :]
        items = [
            SearchItem((*self._namespace, one["section"]), one["id"], _marked(one["text"]), now, now, one["relevance"])
            for one in call(self._service, TOOLS["memory_pack"], asked).data["entries"]
            if wanted in ((), (one["section"],))
        ]
        return items[op.offset : op.offset + op.limit]

    def _fetched(self, op: GetOp) -> Item | None:
        try:
            record = call(self._service, TOOLS["fetch"], {"id": op.key}).data
        except ServiceError as error:
            if error.status == 404:
                return None
            raise
        now = datetime.now(UTC)
        value = {**_marked(record["text"]), "kind": record["metadata"]["kind"]}
        return Item(value=value, key=op.key, namespace=op.namespace, created_at=now, updated_at=now)

    def _recorded(self, op: PutOp) -> None:
        if op.value is None:
            raise ValueError("memory deletes nothing by a key: see `hmx knowledge` and `hmx erase`")
        if tuple(op.namespace[len(self._namespace) :]) not in ((), _FACTS):
            raise ValueError("a namespace does not say whose a fact is: use a store with the person's key or subject")
        text = _text(op.value)
        digest = hashlib.sha256(json.dumps([*op.namespace, op.key, text]).encode()).hexdigest()[:32]
        call(self._service, TOOLS["memory_record"], {"kind": "fact", "text": text, "idempotency_key": digest})


def _marked(text: str) -> dict[str, Any]:
    """Return the value of an item: memory as a model may read it, marked as data."""
    return {"text": shown(text), "memory": True}


def _text(value: Mapping[str, Any]) -> str:
    said = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
    return said if said is not None else json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
