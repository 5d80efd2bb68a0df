"""Formats of the state topics' records, and migration of older states.

Enters: a partition's state records (key → bytes), its position record among them. Leaves: the changed records, in the
current format. Raises UnreadableStateError; NewerStateError if a newer release wrote them. All records of a partition
have the same format, which its position record names. Restoring migrates an older state as a whole, and the worker
writes the changes at once, in one transaction with the position record. So a topic never mixes formats, and an older
worker that takes the partition back refuses it at the first record. Migrating records one by one on reading would need
a format number in each.

To change a record's encoding, add a step to `FORMATS`, which raises `STATE_FORMAT` by one. If a record cannot be made
from the old one alone, raise its `oldest` to the new format instead: older states are then rebuilt from the log.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import orjson

from hmx_pipeline.stages.fold import POSITION_KEY

Step = Callable[[str, bytes], bytes | None]
"""Converts a record (key, value) from format n to n + 1; None removes it. Pure. An exception means that the record is
unreadable."""


class UnreadableStateError(Exception):
    """The state was written by another version of the pipeline, or by something else. `key` is that of the unreadable
    record; the message contains nothing of the record."""

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


class NewerStateError(UnreadableStateError):
    """A newer release has written the state, so this one must not continue it."""


class Formats(NamedTuple):
    oldest: int
    steps: tuple[Mapping[str, Step], ...] = ()
    """For each format, key prefix → step to the next; other records stay as they are."""

    @property
    def current(self) -> int:
        return self.oldest + len(self.steps)

    def migrate(self, records: dict[str, bytes]) -> dict[str, bytes | None]:
        """Migrate a partition's records, its position record included, in place. Return the changed records without the
        position record. Raises UnreadableStateError."""
        found = self._found(records)
        changed: dict[str, bytes | None] = {}
        for step in self.steps[found - self.oldest :]:
            for key in [key for key in records if key[:1] in step]:
                value = _stepped(step[key[:1]], key, records.pop(key))
                if value is not None:
                    records[key] = value
                changed[key] = value
        changed.pop(POSITION_KEY, None)
        return changed

    def _found(self, records: Mapping[str, bytes]) -> int:
        packed = records.get(POSITION_KEY)
        if packed is None:
            raise UnreadableStateError(POSITION_KEY, "there is no position record")
        try:
            found = _formatted(packed).format
        except ValueError as error:
            raise UnreadableStateError(POSITION_KEY, "the position record is damaged") from error
        if found > self.current:
            raise NewerStateError(
                POSITION_KEY,
                f"a newer release has written it: its format is {found}, this release reads {self.oldest} to"
                f" {self.current}",
            )
        if found < self.oldest:
            raise UnreadableStateError(
                POSITION_KEY, f"its format is {found}, this release reads {self.oldest} to {self.current}"
            )
        return found


class _Formatted(msgspec.Struct):
    format: int


_formatted: Final = msgspec.json.Decoder(_Formatted).decode


def _stepped(step: Step, key: str, value: bytes) -> bytes | None:
    try:
        return step(key, value)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise UnreadableStateError(key, f"it can't be migrated: {type(error).__name__}") from error


_PROCEDURE: Final = "task_schema%2F"


def _is_procedure(key: str) -> bool:
    """Return True for the key m/tenant/pattern/… or p/tenant/pattern of a procedure."""
    return key.split("/")[2].startswith(_PROCEDURE)


def _without_old_evidence(key: str, value: bytes) -> bytes | None:
    """Drop contributions to procedures under keys made from the wish; such contributions now have other keys."""
    return None if _is_procedure(key) else value


def _to_speak(key: str, value: bytes) -> bytes:
    """Schedule procedures under keys made from the wish, so that they are deprecated."""
    return orjson.dumps({**orjson.loads(value), "speak_at": 0}) if _is_procedure(key) else value


def _to_seal(_: str, value: bytes) -> bytes:
    """Drop a mark of patterns whose evidence was claimed; contributions say now when they were. Schedule patterns that
    operators decided on: if nothing else is left of them, their name is sealed."""
    fields = orjson.loads(value)
    decided = fields.get("archived") is not None or fields.get("rulings")
    if not decided and "claimed" not in fields:
        return value
    left = {name: fields[name] for name in fields if name != "claimed"}
    return orjson.dumps(left | ({"speak_at": fields.get("speak_at") or 0} if decided else {}))


FORMATS: Final = Formats(4, ({"m": _without_old_evidence, "p": _to_speak}, {}, {"p": _to_seal}))
"""The second step changes nothing: older releases do not know the subjects, owners, settings and rulings in the
state."""
STATE_FORMAT: Final = FORMATS.current
