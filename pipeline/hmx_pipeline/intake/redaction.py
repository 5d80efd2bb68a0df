"""Secret redaction in an event's JSON values, before anything is stored, hashed or passed on.

Output: the values with `[REDACTED]` in place of secrets, and their JSON paths; an object without secrets is returned
itself. Ids, type, sequence and timestamp always stay. A secret is the value of a secret name, also of one in a
neighbouring field (`{"name": "Cookie", "value": …}`), or a text like one: known tokens, private keys, credentials in
URLs, assignments in commands, programs and configuration, passwords in plain words, payment card numbers. Strings that
contain JSON are searched too.
"""

from typing import Any, Final

import orjson

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event import Event
from hmx_pipeline.contracts.limits import (
    MB,
    NESTING,
    REDACTED_PATH,
    REDACTED_PATHS,
    RULE_CHARACTERS,
    TEXT_STEPS,
    WORK_STEPS,
)
from hmx_pipeline.intake.json_paths import path_of
from hmx_pipeline.intake.named_secret_rules import METRIC, NUMERIC
from hmx_pipeline.intake.scan import REDACTED
from hmx_pipeline.intake.secret_names import (
    bears_secret,
    is_blank,
    is_code,
    is_keyed,
    is_mixed,
    is_sentence,
    may_be_keyed,
    names_next,
)
from hmx_pipeline.intake.secret_rules import as_read, doubtful, without_secrets

_KEPT: Final = frozenset(Event.model_fields) - {"content", "metadata", "source", "provenance_ref", "tags"}
_NAMES: Final = ("name", "key", "header", "field")


class TooCostlyError(Exception):
    """The search for an event's secrets takes more than WORK_STEPS."""


def redact(fields: dict[str, Any], *, tokens: bool = True) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the values without secrets, and the JSON paths of the first ones. Raises TooCostlyError.

    `tokens` says whether any text may contain a credential of a known shape.
    """
    found = _FoundSecrets(tokens)
    searched = {name: value for name, value in fields.items() if name not in _KEPT}
    clean = _object(searched, found, 0)
    if clean is searched:
        return fields, ()
    return {name: value for name, value in fields.items() if name in _KEPT} | clean, tuple(found.paths)


class _FoundSecrets:
    """The paths of secrets, and the trail of keys and indexes to the current value. A path is only built for a secret,
    because it is long in a deep event."""

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
        """Count the work, and return True if the text must be searched."""
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


def _walk(value: Any, found: _FoundSecrets, depth: int) -> Any:
    if isinstance(value, str):
        return _string(value, found, depth)
    if depth >= NESTING and isinstance(value, dict | list):  # only in strings that contain JSON; nothing reads so deep
        found.here()
        return REDACTED
    if isinstance(value, dict):
        return _object(value, found, depth)
    if isinstance(value, list):
        return _list(value, found, depth)
    found.work(1)
    return value


def _list(value: list[Any], found: _FoundSecrets, depth: int, *, joined: bool = True) -> list[Any]:
    items: list[Any] = []
    for index, item in enumerate(value):
        found.trail.append(index)
        new = item
        if not (argument := index > 0 and (_is_argument(value[index - 1], item) or _is_pair(value))):
            new = _walk(item, found, depth + 1)
            argument = new is not item and index > 0 and _is_argument(value[index - 1], new)
        if argument:
            found.here()
        items.append(REDACTED if argument else new)
        found.trail.pop()
    if joined and len(value) > 1 and all(isinstance(item, str) for item in value):
        items = _lines(value, items, found, depth)
    return value if len(items) == len(value) and all(map(_same, items, value)) else items


def _lines(value: list[str], items: list[str], found: _FoundSecrets, depth: int) -> list[str]:
    """Search a list of lines as one text, because a private key may span several lines."""
    ended = all(item.endswith("\n") for item in value[:-1])
    between = "" if ended else "\n"
    text = between.join(value)
    if not found.searched(text):
        return items
    new = without_secrets(text, tokens=found.tokens, work=found.reads)
    if new in (text, between.join(items)):
        return items
    found.here()
    return _list(new.splitlines(keepends=True) if ended else new.split("\n"), found, depth, joined=False)


def _is_argument(before: Any, item: Any) -> bool:
    """Return True if the item is the argument of an option such as `--password`."""
    return (
        isinstance(before, str) and isinstance(item, str) and names_next(before)
        and not item.startswith("-") and item not in ("", REDACTED) and not is_blank(item)
    )  # fmt: skip


def _is_pair(value: list[Any]) -> bool:
    """Return True for a header or setting as a list: `["X-Api-Key", "x1y2z3"]`."""
    if len(value) != 2 or not all(isinstance(item, str) for item in value):
        return False
    name, text = value
    return (
        name.replace("-", "_").isidentifier()
        and bears_secret(name)
        and is_mixed(text)
        and not (text == REDACTED or is_blank(text) or is_code(text) or is_sentence(text))
    )


def _same(one: Any, other: Any) -> bool:
    return one is other


def _object(value: dict[str, Any], found: _FoundSecrets, depth: int) -> dict[str, Any]:
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
            if may and new is not item and _is_secret(read, new):  # what made it a placeholder has gone
                new = _under_secret_key(read.lower(), new, found)
        if name != key:
            found.here()
        found.trail.pop()
        changed = changed or new is not item or name != key
        clean[name] = new
    return clean if changed else value


@remembered(MB)
def _of_key(key: str) -> tuple[str, str, bool, int]:
    """Return the redacted key, its normalised form, whether its value may be a secret, and the steps it took."""
    searched = doubtful(key)
    read = key if key.isascii() else as_read(key)
    name = without_secrets(key) if searched else key
    return name, read, bears_secret(read) or may_be_keyed(read), _steps(key) if searched else 1


def _free(name: str, clean: dict[str, Any], taken: dict[str, int]) -> str:
    """Return an unused name: `[REDACTED]+`, `[REDACTED]+2`, … Counting on makes many such keys take linear time."""
    free = name + "+"
    while free in clean:
        taken[name] = taken.get(name, 1) + 1
        free = f"{name}+{taken[name]}"
    return free


def _named_secret(value: dict[str, Any]) -> str:
    """Return the secret name, in lower case, in a field next to the value, as in lists of headers or settings."""
    names = (name for where in _NAMES if isinstance(name := value.get(where), str) and bears_secret(name))
    return next(names, "").lower()


def _is_secret(key: str, value: Any) -> bool:
    if not bears_secret(key):
        return isinstance(value, str) and is_keyed(key, value)
    if isinstance(value, str):
        return value not in ("", REDACTED) and not is_blank(value)
    return value is not None and value is not True and value is not False and key.lower() != "pass"


def _under_secret_key(key: str, value: Any, found: _FoundSecrets) -> Any:
    if METRIC.search(key) and _counts(value):
        return value
    found.here()
    return REDACTED


def _counts(value: Any, levels: int = 3) -> bool:
    """Return True if a metric is a number, or an object of numbers as models report their usage."""
    if isinstance(value, str):
        return bool(NUMERIC.fullmatch(value))
    if isinstance(value, dict):
        return levels > 0 and all(_plain(key) and _counts(item, levels - 1) for key, item in value.items())
    return not isinstance(value, list)


def _plain(key: str) -> bool:
    return METRIC.search(key.lower()) is not None or not (bears_secret(key) or without_secrets(key) != key)


def _string(value: str, found: _FoundSecrets, depth: int) -> str:
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
    """Return the JSON container or string that a text holds, else None."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _nested(inner: Any, text: str, found: _FoundSecrets, depth: int) -> str:
    clean = _walk(inner, found, depth + 1)
    return text if clean is inner else orjson.dumps(clean).decode()
