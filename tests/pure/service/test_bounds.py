"""What the service remembers of tenants and of what they ask is bounded in bytes, though anybody may say any name."""

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import msgspec
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from hmx_pipeline.contracts.fingerprint import Fingerprint
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.retrieval.memory_index import IndexEntry, MemoryIndex
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.service import access
from hmx_pipeline.service.access import Access
from hmx_pipeline.service.fingerprint_routes import FingerprintRequest
from hmx_pipeline.service.hippocortex import fingerprints, learn, usage
from hmx_pipeline.service.hippocortex.synthesize import Synthesis
from hmx_pipeline.service.hippocortex.usage import Usage
from hmx_pipeline.store.tenant_index import _VIEW_BYTES, TenantIndexes


def test_tenants_of_which_nothing_is_known_take_room_and_are_forgotten() -> None:
    views = TenantIndexes(limit=500 * KB)
    for n in range(1_000):
        view = views.of(f"nobody-{n}")
        views.settle(view)
    assert views.nbytes <= 500 * KB
    assert len(views._views) <= 500 * KB // _VIEW_BYTES


@pytest.mark.parametrize(
    ("labels", "terms"), [(0, 200), (64, 1)], ids=["words that nobody else uses", "as many labels as there may be"]
)
def test_a_catalogue_counts_no_less_than_it_takes(labels: int, terms: int) -> None:
    cards = [
        IndexEntry(
            b"d" * 16, "fact", 1, tuple(f"tag:{n}-{i}" + "😀" * 120 for i in range(labels)),
            {f"w{n:05}{i:03}" + "😀" * 55: 1 for i in range(terms)},
        )
        for n in range(100)
    ]  # fmt: skip
    packed = [msgspec.msgpack.encode(card) for card in cards]
    decode = msgspec.msgpack.Decoder(IndexEntry).decode
    gc.collect()
    tracemalloc.start()
    catalogue = MemoryIndex()
    catalogue.put((f"n{n}", decode(card)) for n, card in enumerate(packed))
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.9 * taken < catalogue.nbytes < 2 * taken
    catalogue.put([(f"n{n}", None) for n in range(100)])
    assert catalogue.nbytes == 0


def test_the_tenant_with_the_most_figures_loses_its_oldest_and_no_other_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "FIGURES", 1_000)
    now = [0.0]
    kept = Usage(lambda: now[0])
    kept.count("quiet", "type:message")
    for minute in range(200):
        now[0] = minute * 60.0
        for n in range(30):
            kept.count("loud", f"type:{minute}-{n}")
    assert sum(len(counts) for minutes in kept._tenants.values() for counts in minutes.values()) <= 1_000
    assert kept.since("quiet", 300)["type:message"] == 1
    assert kept.since("loud", 1).total() == 30, "what it did lately is there"


def test_a_type_with_a_long_name_is_counted_among_others() -> None:
    kept = Usage(lambda: 0.0)
    kept.count("acme", "type:" + "x" * 100_000)
    assert kept.since("acme", 1) == {"type:other": 1}


def test_beyond_so_many_tenants_a_minute_the_others_share_one_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "TENANTS", 10)
    limited = Access("", per_minute=2, now_s=lambda: 0.0)
    assert all(limited.limits(f"t{n}")[1] for n in range(10))
    assert [limited.limits(f"new-{n}")[1] for n in range(5)] == [True, True, False, False, False]
    assert limited.limits("t0")[1], "who was there has a count of their own"
    assert len(limited._asked) <= 11


def parts(model: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str, FieldInfo]]:
    """Every field of a model and of those within it."""
    for name, field in model.model_fields.items():
        yield model, name, field
        for inner in named(field.annotation):
            yield from parts(inner)


def named(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from named(argument)


ASKED = (PackRequest, FingerprintRequest, Fingerprint, Synthesis, learn.LearnBody, fingerprints.FingerprintBody)


@pytest.mark.parametrize(
    ("name", "field"), [(f"{model.__name__}.{name}", field) for asked in ASKED for model, name, field in parts(asked)]
)
def test_the_first_wrong_item_of_a_request_is_an_error_and_the_others_none(name: str, field: FieldInfo) -> None:
    asked: Any = TypeAdapter(Annotated[field.annotation, *field.metadata, "as in its model"])
    with pytest.raises(ValidationError) as raised:
        asked.validate_python([object()] * 5_000)
    assert raised.value.error_count() <= 2, name
