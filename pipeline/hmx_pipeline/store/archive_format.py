"""Archive format: the records of a topic partition as Parquet files, one for each tenant and day. Pure.

Enters: records with their times. Leaves: folders, files and records again, byte for byte. Raises ValueError and
pyarrow's errors for files that are not whole. Needs the extra `archive`.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import parquet

from hmx_pipeline.contracts.headers import CONTROL_KINDS, KIND, header
from hmx_pipeline.contracts.keys import encoded, split_key
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.projection import TopicRecord

_NAME: Final = 200
"""Characters of a folder's name; a longer tenant id is hashed."""
_LAST_MS: Final = 253_402_300_799_000
"""End of the year 9999, which a date ends with."""
_HONOURED: Final = b"hmx.erasures"
_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("log_time", pa.timestamp("ms", "UTC")),
        ("key", pa.string()),
        ("value", pa.string()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)


class ArchivedRecord(NamedTuple):
    record: TopicRecord
    at_ms: int
    """The record's time in its topic."""


def tenant_folder(tenant_id: str) -> str:
    name = encoded(tenant_id)
    plain = len(name) <= _NAME and name[:1] != "~"  # so no tenant has the name of another's hash
    return f"tenant={name if plain else '~' + hashlib.sha256(name.encode()).hexdigest()}"


def by_folder(rows: Iterable[ArchivedRecord]) -> Mapping[str, list[ArchivedRecord]]:
    """Sorts by tenant and day. Leaves out what is never memory: control records, and what is no text."""
    found = defaultdict[str, list[ArchivedRecord]](list)
    for row in rows:
        try:
            tenant = split_key(row.record.key.decode())[0]
            (row.record.value or b"").decode()
        except UnicodeDecodeError:
            continue
        if row.record.value is not None and header(row.record.headers, KIND) not in CONTROL_KINDS:
            day = datetime.fromtimestamp(min(max(row.at_ms, 0), _LAST_MS) / 1000, UTC).date()
            found[f"{tenant_folder(tenant)}/day={day}"].append(row)
    return found


def written(rows: Sequence[ArchivedRecord], honoured: str) -> bytes:
    """Makes a file. `honoured` names the erasures that its rows have been through."""
    columns: list[Sequence[Any]] = [
        [row.record.offset for row in rows],
        [row.at_ms for row in rows],
        [row.record.key for row in rows],
        [row.record.value for row in rows],
        [[{"name": name, "value": value} for name, value in row.record.headers or ()] for row in rows],
    ]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)
    sink = pa.BufferOutputStream()
    table = table.replace_schema_metadata({_HONOURED: honoured.encode()})
    parquet.write_table(table, sink, compression="zstd", write_page_checksum=True)
    return bytes(sink.getvalue())


def honoured_by(file: bytes) -> str:
    """Returns which erasures a file has been through."""
    metadata = parquet.read_schema(pa.BufferReader(file)).metadata or {}
    return str(metadata.get(_HONOURED, b"").decode())


def read(file: bytes, topic: str, partition: int) -> list[ArchivedRecord]:
    table = parquet.read_table(pa.BufferReader(file), page_checksum_verification=True)
    offsets, times, *texts, headers = (table.column(name) for name in _SCHEMA.names)
    keys, values = (column.cast(pa.binary()).to_pylist() for column in texts)
    named = ([(each["name"], each["value"]) for each in row] for row in headers.to_pylist())
    rows = zip(offsets.to_pylist(), times.cast(pa.int64()).to_pylist(), keys, values, named, strict=True)
    return [ArchivedRecord(TopicRecord(topic, partition, offset, *rest), at_ms) for offset, at_ms, *rest in rows]


def remaining(rows: Iterable[ArchivedRecord], erasures: Erasures) -> list[ArchivedRecord]:
    """Returns the rows that are not erased."""
    return [row for row in rows if not erasures.hides(row.record)]
