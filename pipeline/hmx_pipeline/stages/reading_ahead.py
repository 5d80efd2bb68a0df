"""Decoding of records some at a time, ahead of their folds.

Enters: the records of the batch that are still to be folded. Leaves: for the record that is asked for, `Accepted` or a
`Rejection`; up to 128 records or 256 KB are decoded ahead. Decoding depends on the record alone, so its time does not
matter. In a row it takes a fifth less, because code and the tables of the search for secrets stay in the processor's
caches.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.rejections import Rejection
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.decode import decode_each
from hmx_pipeline.stages.fold import Record, Tx

_RECORDS: Final = 128
_BYTES: Final = 256 * KB
"""Of the records that are decoded at a time, after which no other is begun."""


class ReadingAhead:
    def __init__(self) -> None:
        self._batch: Iterable[Record] = ()
        self._decoded: dict[int, Accepted | Rejection | None] = {}
        """By offset."""

    def decoded(self, tx: Tx, record: Record) -> Accepted | Rejection:
        """Decode the record of `tx`, and perhaps some that come after it. Raises what decoding this record raises."""
        if tx.coming is not self._batch:
            self._batch = tx.coming
            self._decoded.clear()
        if not self._decoded:
            self._read_on(tx)
        found = self._decoded.pop(record.offset, None)
        return decode_each((record.value,))[0] if found is None else found

    def _read_on(self, tx: Tx) -> None:
        size, offsets, values = 0, [], []
        for record in islice(tx.coming, _RECORDS):
            offsets.append(record.offset)
            values.append(record.value)
            size += len(record.value or b"")
            if size > _BYTES:
                break
        self._decoded = dict.fromkeys(offsets)
        with suppress(Exception):  # each is decoded in its own turn then
            self._decoded = dict(zip(offsets, decode_each(values), strict=True))
