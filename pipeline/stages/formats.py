"""The format of the state topics' records, and how a state of an older format becomes one of this.

A partition's records are all of one format; its position record says which. Restoring migrates a state of an older
format as a whole, and the worker writes what has changed at once, in one transaction with the position record: so a
topic never mixes formats, and an older worker that takes the partition back sees at its first record that it must not
touch it. Reading such a record later, one by one, would need a format number on each.

A change of a record's encoding adds a step to FORMATS, which raises STATE_FORMAT by one. Where the new record can't be
made of the old one alone, OLDEST moves up to the new format instead: older states are then rebuilt from the log.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec
import orjson

from pipeline.stages.fold import POSITION_KEY

Step = Callable[[str, bytes], bytes | None]
"""A record's key and value in format n → its value in format n + 1; None: the record is not there any more. Pure; what
it raises says that the record can't be read."""


class UnreadableStateError(Exception):
    """The state was written by another version of the pipeline, or not by the pipeline at all.

    `key` is of the state record that can't be read; the message holds nothing of the record's content.
    """

    def __init__(self, key: str, why: str) -> None:
        super().__init__(why)
        self.key = key


class NewerStateError(UnreadableStateError):
    """A newer release has written the state: it goes on there, and nobody else may."""


class Formats(NamedTuple):
    oldest: int
    steps: tuple[Mapping[str, Step], ...] = ()
    """From each format to the next, by the first letter of the keys; other records stay as they are."""

    @property
    def current(self) -> int:
        return self.oldest + len(self.steps)

    def migrate(self, records: dict[str, bytes]) -> dict[str, bytes | None]:
        """Brings a partition's records, its position record among them, to the current format, in place.

        Returns those of them that have changed, but for the position record. Raises UnreadableStateError.
        """
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
            found = msgspec.json.decode(packed, type=_Formatted).format
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


def _stepped(step: Step, key: str, value: bytes) -> bytes | None:
    try:
        return step(key, value)
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise UnreadableStateError(key, f"it can't be migrated: {type(error).__name__}") from error


_PROCEDURE: Final = "task_schema%2F"


def _is_procedure(key: str) -> bool:
    """Of a key m/tenant/pattern/… or p/tenant/pattern."""
    return key.split("/")[2].startswith(_PROCEDURE)


def _without_old_evidence(key: str, value: bytes) -> bytes | None:
    """What sessions said of a procedure by its wish; what they say of it now stands elsewhere."""
    return None if _is_procedure(key) else value


def _to_speak(key: str, value: bytes) -> bytes:
    """A procedure that was known by its wish has to say that it is no more."""
    return orjson.dumps({**orjson.loads(value), "speak_at": 0}) if _is_procedure(key) else value


FORMATS: Final = Formats(4, ({"m": _without_old_evidence, "p": _to_speak},))
STATE_FORMAT: Final = FORMATS.current
