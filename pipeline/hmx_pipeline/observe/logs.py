"""Logging: one line per record on standard error, with its place and without any payload or secret.

Enters: log records of all libraries, with `extra=at(…)`. Leaves: JSON lines, or text on a terminal. A line names its
place (`at`): stage, topic, partition, offset, tenant, session, where known. It never holds a payload or secret: a
foreign exception might quote one, so only its type and code lines are logged.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

from hmx_pipeline.contracts.safe_text import in_json, on_one_line

PLACE: Final = ("stage", "topic", "partition", "offset", "tenant", "session")
"""Fields of a place, in printing order."""
OURS: Final = ("hmx_pipeline.", "confluent_kafka.", "cimpl")
"""Modules whose exceptions never quote a record."""
FRAMES: Final = 20
LOG: Final = logging.getLogger("hmx")


def configure_logs(level: str, form: str = "auto") -> None:
    """Sets up logging; `form` is auto, json or text. Raises ValueError for an unknown level."""
    as_json = form == "json" or (form == "auto" and not sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else Text())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    sys.excepthook = _uncaught


def at(
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    *,
    stage: str | None = None,
    tenant: str | None = None,
    session: str | None = None,
) -> dict[str, Any]:
    """Returns the `extra` argument of a log call."""
    place = (stage, topic, partition, offset, tenant, session)
    return {name: value for name, value in zip(PLACE, place, strict=True) if value is not None}


def said(error: BaseException) -> str:
    """Returns what is safe to log: the message of our own, Kafka's and system errors, else the type."""
    kind = type(error)
    safe = isinstance(error, OSError) or kind.__module__.startswith(OURS)
    return str(error) if safe and str(error) else kind.__name__


class JsonLines(logging.Formatter):
    """Formats `time`, `level`, `logger`, `message`, the place, and `error` with `frames`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_place(record),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = said(record.exc_info[1])
            line["frames"] = list(_frames(record.exc_info[1]))
        return in_json(json.dumps(line, ensure_ascii=False, default=str).encode(errors="replace")).decode()


class Text(logging.Formatter):
    """Formats for people, with the place before the message. Names from tenants cannot break a line."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        place = _spoken(_place(record))
        lines = [f"{time} {record.levelname:<8} {record.name}  {place}{record.getMessage()}"]
        if record.exc_info and record.exc_info[1] is not None:
            lines += [f"    {said(record.exc_info[1])}", *(f"    {frame}" for frame in _frames(record.exc_info[1]))]
        return "\n".join(map(on_one_line, lines))


def _place(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name in PLACE if (value := getattr(record, name, None)) is not None}


def _spoken(place: dict[str, Any]) -> str:
    """Formats a place as `hmx.events.v1/3@1207 tenant/session: `."""
    log = str(place.get("topic", place.get("stage", "")))
    log += f"/{place['partition']}" if "partition" in place else ""
    log += f"@{place['offset']}" if "offset" in place else ""
    whose = "/".join(str(place[name]) for name in ("tenant", "session") if name in place)
    spoken = " ".join(part for part in (log, whose) if part)
    return f"{spoken}: " if spoken else ""


def _frames(error: BaseException) -> Iterator[str]:
    """Yields file, line and function of each call, innermost last, then those of the cause."""
    for frame in traceback.extract_tb(error.__traceback__)[-FRAMES:]:
        yield f"{frame.filename}:{frame.lineno} {frame.name}"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield f"from {type(cause).__name__}"
        yield from _frames(cause)


def _uncaught(_: type[BaseException], error: BaseException, __: TracebackType | None) -> None:
    """Logs the error instead of Python's traceback, which might quote a record."""
    LOG.critical("the process ends because of an error", exc_info=error)
