"""Secrets are taken out before anything is stored, hashed or passed on.

Enters: the plain JSON values of an event. Leaves: the same values with `[REDACTED]` in place of secrets, and the JSON
paths where that happened; what held no secret is the same object as before. Never fails. An event's ids, type, sequence
and timestamp stay as they are, whatever they look like.

A secret is the value of a secret-bearing key, also of one named beside it (`{"name": "Cookie", "value": …}`), or a text
shaped like one: known tokens, private keys, credentials in URLs, assignments in command lines, program text and
configuration, passwords and the like that somebody tells in plain words, numbers of payment cards. Strings that hold
JSON are looked into.
"""

from typing import Any, Final

import orjson

from pipeline.contracts.event import Event
from pipeline.contracts.limits import (
    MB,
    NESTING,
    REDACTED_PATH,
    REDACTED_PATHS,
    RULE_CHARACTERS,
    TEXT_STEPS,
    WORK_STEPS,
)
from pipeline.contracts.remembered import remembered
from pipeline.intake.named import bears_secret, is_blank, is_keyed, may_be_keyed, names_next
from pipeline.intake.paths import path_of
from pipeline.intake.scan import REDACTED
from pipeline.intake.secret_names import METRIC, NUMERIC
from pipeline.intake.secret_rules import as_read, doubtful, without_secrets

_KEPT: Final = frozenset(Event.model_fields) - {"content", "metadata", "source", "provenance_ref", "tags"}
_NAMES: Final = ("name", "key", "header", "field")


class TooCostlyError(Exception):
    """Looking for an event's secrets takes more than WORK_STEPS."""


def redact(fields: dict[str, Any], *, tokens: bool = True) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The event's values without secrets, and the JSON paths where they were; of very many the first.

    `tokens` says whether any text may hold a credential that is known by its shape. Raises TooCostlyError.
    """
    found = _Found(tokens)
    searched = {name: value for name, value in fields.items() if name not in _KEPT}
    clean = _object(searched, found, 0)
    if clean is searched:
        return fields, ()
    return {name: value for name, value in fields.items() if name in _KEPT} | clean, tuple(found.paths)


class _Found:
    """Where secrets were, told by the keys and indices that lead to the value looked at.

    A path is only made where there was a secret, and so often: in a deep event each is long.
    """

    def __init__(self, tokens: bool) -> None:
        self.tokens = tokens
        self.left = WORK_STEPS
        self.paths: list[str] = []
        self.trail: list[str | int] = []

    def work(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError

    def searched(self, text: str) -> bool:
        """Whether a text has to be searched, which then counts."""
        searched = doubtful(text, tokens=self.tokens)
        self.work(_steps(text) if searched else 1)
        return searched

    def reads(self, text: str) -> None:
        self.work(len(text) // RULE_CHARACTERS)

    def here(self) -> None:
        if len(self.paths) < REDACTED_PATHS:
            self.paths.append(path_of(self.trail)[:REDACTED_PATH])


def _steps(text: str) -> int:
    return TEXT_STEPS + len(text) // TEXT_STEPS


def _walk(value: Any, found: _Found, depth: int) -> Any:
    if isinstance(value, str):
        return _string(value, found, depth)
    if depth >= NESTING and isinstance(value, dict | list):  # only within strings that hold JSON: nobody looks so deep
        found.here()
        return REDACTED
    if isinstance(value, dict):
        return _object(value, found, depth)
    if isinstance(value, list):
        return _list(value, found, depth)
    found.work(1)
    return value


def _list(value: list[Any], found: _Found, depth: int) -> list[Any]:
    items: list[Any] = []
    for index, item in enumerate(value):
        found.trail.append(index)
        if index and _is_argument(value[index - 1], item):
            found.here()
            items.append(REDACTED)
        else:
            items.append(_walk(item, found, depth + 1))
        found.trail.pop()
    if len(value) > 1 and all(isinstance(item, str) for item in value):
        items = _lines(value, items, found)
    return value if len(items) == len(value) and all(map(_same, items, value)) else items


def _lines(value: list[str], items: list[str], found: _Found) -> list[str]:
    """A text that stands as a list of its lines, such as a private key: what begins in one and ends in another."""
    ended = all(item.endswith("\n") for item in value[:-1])
    between = "" if ended else "\n"
    text = between.join(value)
    if not found.searched(text):
        return items
    new = without_secrets(text, tokens=found.tokens, work=found.reads)
    if new in (text, between.join(items)):
        return items
    found.here()
    return [_string(line, found, 0) for line in (new.splitlines(keepends=True) if ended else new.split("\n"))]


def _is_argument(before: Any, item: Any) -> bool:
    """Whether an item is what an option such as `--password` before it asks for."""
    return (
        isinstance(before, str) and isinstance(item, str) and names_next(before)
        and not item.startswith("-") and item not in ("", REDACTED) and not is_blank(item)
    )  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    return one is other


def _object(value: dict[str, Any], found: _Found, depth: int) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    changed = False
    taken: dict[str, int] = {}
    named = _named_secret(value) if "value" in value else ""
    for key, item in value.items():
        name, read, may, steps = _of_key(key)
        found.work(steps)
        if name in clean:  # two secrets were keys of one object
            name = _free(name, clean, taken)
        found.trail.append(name)
        if named and key == "value":
            read, may = named, True
        if may and _is_secret(read, item):
            new = _under_secret_key(read.lower(), item, found)
        else:
            new = _walk(item, found, depth + 1)
        if name != key:
            found.here()
        found.trail.pop()
        changed = changed or new is not item or name != key
        clean[name] = new
    return clean if changed else value


@remembered(MB)
def _of_key(key: str) -> tuple[str, str, bool, int]:
    """A key without secrets, as it reads, whether a secret may stand under it, and the steps that it takes to tell."""
    searched = doubtful(key)
    read = key if key.isascii() else as_read(key)
    name = without_secrets(key) if searched else key
    return name, read, bears_secret(read) or may_be_keyed(read), _steps(key) if searched else 1


def _free(name: str, clean: dict[str, Any], taken: dict[str, int]) -> str:
    """`[REDACTED]+`, `[REDACTED]+2`, …: no number is tried twice, so that many such keys take linear time."""
    free = name + "+"
    while free in clean:
        taken[name] = taken.get(name, 1) + 1
        free = f"{name}+{taken[name]}"
    return free


def _named_secret(value: dict[str, Any]) -> str:
    """The secret-bearing name, in lower case, that stands beside a value, as in lists of headers and of settings."""
    names = (name for where in _NAMES if isinstance(name := value.get(where), str) and bears_secret(name))
    return next(names, "").lower()


def _is_secret(key: str, value: Any) -> bool:
    if not bears_secret(key):
        return isinstance(value, str) and is_keyed(key, value)
    if isinstance(value, str):
        return value not in ("", REDACTED) and not is_blank(value)
    return value is not None and value is not True and value is not False and key.lower() != "pass"


def _under_secret_key(key: str, value: Any, found: _Found) -> Any:
    if METRIC.search(key) and _counts(value):
        return value
    found.here()
    return REDACTED


def _counts(value: Any, levels: int = 3) -> bool:
    """Whether a metric's value is a number, or an object of numbers as models report their usage."""
    if isinstance(value, str):
        return bool(NUMERIC.fullmatch(value))
    if isinstance(value, dict):
        return levels > 0 and all(_plain(key) and _counts(item, levels - 1) for key, item in value.items())
    return not isinstance(value, list)


def _plain(key: str) -> bool:
    return METRIC.search(key.lower()) is not None or not (bears_secret(key) or without_secrets(key) != key)


def _string(value: str, found: _Found, depth: int) -> str:
    if not found.searched(value):
        return value
    inner = _json(value)
    if inner is not None:
        new = _nested(inner, value, found, depth)
    else:
        new = without_secrets(value, tokens=found.tokens, work=found.reads)
        if new != value:
            found.here()
    return value if new == value else new


def _json(text: str) -> Any:
    """What a string holds that is JSON, but for numbers and the like, else None."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _nested(inner: Any, text: str, found: _Found, depth: int) -> str:
    clean = _walk(inner, found, depth + 1)
    return text if clean is inner else orjson.dumps(clean).decode()
