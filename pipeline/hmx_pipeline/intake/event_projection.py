"""Graph projection of typed events, and what they state: fills the templates of an event type's row from its content.

Input: a row's projection and the plain JSON values of an accepted event. Output: `Projected` with bounded texts, or
None if it is empty. Of an unknown type, plain values and lists are kept by key, but not nested objects or secret names.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import orjson

from hmx_pipeline.contracts import limits
from hmx_pipeline.contracts.event_rows import Places, ProjectedEdge, Projection, Saying, Template
from hmx_pipeline.contracts.evidence import Projected
from hmx_pipeline.contracts.ledger import CUES
from hmx_pipeline.intake.pack_echo import echoes, own_words
from hmx_pipeline.intake.secret_names import bears_secret

_HOLE: Final = re.compile(r"\{([^{}]*)\}")
_SECRET: Final = frozenset(("secret", "token", "password", "api_key", "access_token"))
"""Compared as a whole; values of other secret names are redacted already."""
_UNITS: Final = ("importance", "success_score", "confidence")
"""Properties between 0 and 1, clamped."""
_COUNT: Final = "reinforcement_count"
_AUTHORITY: Final = "authority_status"
_NONE: Final = "non_authoritative"
"""All that an event may say of its authority whose row needs it to say any."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_BLANKED: Final = "[REDACTED"
_EXCERPT: Final = "excerpt"
Fields = dict[str, Any]


def projected(row: Projection, fields: Fields) -> Projected | None:
    content = fields["content"]
    if bears_secret(_plain(content.get("key"))):
        return None  # its key names a secret, so the value may be one wherever it stands
    refs = _refs(content, row)
    claimed = content.get(_AUTHORITY) if _AUTHORITY in row.needs else _NONE
    if refs is None or claimed != _NONE or not all(_plain(content.get(place)) for place in row.needs):
        return None  # malformed
    entity = _filled(row.entity, fields, content)
    name = _filled(row.name, fields, content) if entity else ""
    summary = _everything(fields, content) if row.everything else _joined(content, row.summary)
    says = tuple(said for saying in row.says for said in _said(saying, fields, content))
    if not name and not says:
        return None
    edges = tuple(edge for one in row.edges if (edge := _edge(one, entity, name, fields, content)) is not None)
    properties = _properties(content, row.properties) | _encoded(content) | refs
    if row.status and name:
        properties["status"] = row.status
    return Projected(entity if name else "", name, summary, properties, edges, says, row.again)


@lru_cache(maxsize=256)
def _parts(template: Template) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Split a template into pairs of text and the alternatives of the placeholder after it."""
    pieces = _HOLE.split(template)
    return tuple(
        (pieces[i], tuple(pieces[i + 1].split("|")) if i + 1 < len(pieces) else ()) for i in range(0, len(pieces), 2)
    )


def _filled(template: Template, fields: Fields, content: Fields, item: str = "") -> str:
    """Fill a template; empty if a placeholder has no value."""
    text = ""
    for before, choices in _parts(template):
        text += before
        if choices:
            found = next((value for choice in choices if (value := _chosen(choice, fields, content, item))), "")
            if not found:
                return ""
            text += found
    return text[: limits.PROJECTED_NAME]


def _chosen(choice: str, fields: Fields, content: Fields, item: str) -> str:
    if choice == "item":
        return item
    if choice.startswith("="):
        return choice[1:]
    return _plain(fields.get(choice[1:])) if choice.startswith("@") else _plain(content.get(choice))


def _plain(value: Any, limit: int = limits.PROJECTED_NAME) -> str:
    """Return a scalar as text on one line, without pack entries; empty for other or redacted values."""
    if type(value) is str:
        said = own_words(value) if echoes(value[: 4 * limit]) else value
        text = " ".join(said[: 4 * limit].split())
        return "" if _BLANKED in text else text[:limit]
    if type(value) is bool:
        return str(value).lower()
    return orjson.dumps(value).decode()[:limit] if type(value) in (int, float) else ""


def _texts(value: Any, limit: int = limits.PROJECTED_TEXT) -> Iterator[str]:
    for one in value[: limits.PROJECTED_ITEMS] if type(value) is list else (value,):
        if text := _plain(one, limit):
            yield text


def _joined(content: Fields, places: Places) -> str:
    """Join what each place contains; of a list, its items."""
    said = []
    for place in places:
        value = content.get(place)
        if texts := list(_texts(value)):
            listed = ", ".join(text.rstrip(".") for text in texts)
            said.append(f"{place.replace('_', ' ')}: {listed}" if type(value) is list else texts[0])
    return "; ".join([*(text.rstrip(".") for text in said[:-1]), *said[-1:]])[: limits.PROJECTED_TEXT]


def _everything(fields: Fields, content: Fields) -> str:
    said = [f"{_plain(fields['agent_id'])} emitted {_plain(fields['event_type'])}"]
    for key in sorted(content):
        value = content[key]
        texts = [] if key.casefold() in _SECRET else list(_texts(value))
        if texts:
            said.append(f"{key}={', '.join(texts)}")
    return " ".join(said)[: limits.PROJECTED_TEXT]


def _properties(content: Fields, places: Places) -> dict[str, Any]:
    """Return plain values, bounded texts, and lists of plain values."""
    found: dict[str, Any] = {}
    for place in places[: limits.PROJECTED_PROPERTIES]:
        value = content.get(place)
        limit = limits.PROJECTED_EXCERPT if place.endswith(_EXCERPT) else limits.PROJECTED_NAME
        if place in _UNITS:
            if isinstance(value, int | float) and type(value) is not bool:
                found[place] = min(1.0, max(0.0, value))
        elif place == _COUNT:
            if type(value) is int and value > 0:
                found[place] = value
        elif type(value) in (bool, int, float):
            found[place] = value
        elif type(value) is str and (text := _plain(value, limit)):
            found[place] = text
        elif type(value) is list and (texts := list(_texts(value, limits.PROJECTED_NAME))):
            found[place] = texts
    return found


def _encoded(content: Fields) -> dict[str, Any]:
    """Return under which cues it was learnt, and whether it is pinned."""
    found: dict[str, Any] = {"pinned": content["pinned"]} if type(content.get("pinned")) is bool else {}
    cues = content.get("cues")
    if type(cues) is dict:
        told = [f"{name}={text}" for name in CUES if (text := _plain(cues.get(name)))]
        found |= {"cues": told} if told else {}
    return found


def _refs(content: Fields, row: Projection) -> Fields | None:
    """Return references `seq:hash` to source events, and their hashes; None if a list of them is empty or malformed, or
    a plain value is an object."""
    found: Fields = {}
    if row.refs and any(type(content.get(place)) is dict for place in row.properties):
        return None
    for place in row.refs:
        listed = content.get(place)
        if type(listed) is not list or not listed or not all(map(_is_ref, listed)):
            return None
        kept = listed[: limits.PROJECTED_REFS]
        found[f"{place[:-1]}_refs"] = [f"{one['seq']}:{one['hash']}" for one in kept]
        found[f"{place[:-1]}_hashes"] = [one["hash"] for one in kept]
    return found


def _is_ref(value: Any) -> bool:
    """Return True for a source event, named by its sequence and its hash."""
    if type(value) is not dict or type(value.get("seq")) is not int or type(value.get("hash")) is not str:
        return False
    return value["seq"] > 0 and _HASH.fullmatch(value["hash"]) is not None


def _edge(
    edge: ProjectedEdge, entity: str, name: str, fields: Fields, content: Fields
) -> tuple[str, str, str, str, str] | None:
    relation = _filled(edge.relation, fields, content)
    source = (edge.source_type, _filled(edge.source, fields, content)) if edge.source_type else (entity, name)
    target = (edge.target_type, _filled(edge.target, fields, content)) if edge.target_type else (entity, name)
    return (*source, relation, *target) if relation and source[1] and target[1] else None


def _said(saying: Saying, fields: Fields, content: Fields) -> Iterator[tuple[str, str, str, str]]:
    for item in _texts(content.get(saying.each)) if saying.each else ("",):
        subject = _filled(saying.subject, fields, content, item)
        predicate, value = (_filled(t, fields, content, item) if t else "" for t in (saying.predicate, saying.value))
        if subject and (value or not saying.value):
            yield saying.memory, subject, predicate, value
