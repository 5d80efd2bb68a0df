"""Sanitising of tenants' text for terminals, logs and packs: no control characters, markup or prompt tags.

`on_one_line` and `in_json` are for terminals and logs, `as_data` for packs. Stored text and ordinary text stay
unchanged. Hostile text is changed as little as possible: a command in it can still be copied. Linear in the length.
"""

import re
from typing import Final
from unicodedata import category

INDENT: Final = " " * 8
"""Indentation of further lines of a value. It is deep enough that nothing is a heading, fence, list or HTML block
(CommonMark), even in a list item, and no line looks like one of the pack's own."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_COLOURS: Final = re.compile(r"(?:\x1b\[|\x9b)[0-9;:]*[mK]")
"""Colour codes of tools; removed without a trace."""
_UNSEEN: Final = re.compile(
    "[\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
    "|(?<![^\x00-\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f])"
)
"""Invisible characters that models read: tags, direction marks, joiners without anything to join."""
_MARKS: Final = re.compile(r"[\[［【〔⟦]\s*([hHｈＨһНн][mMｍＭмМ][xXｘＸхХ])\s*[\]］】〕⟧]")
"""`[hmx]` and lookalikes."""
_NAMES: Final = """
    a abbr address area article aside audio b base bdi bdo blockquote body br button canvas caption center cite code col
    colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset figcaption figure font footer form
    frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe image img input ins isindex kbd label legend li
    link listing main map mark marquee math menu meta meter nav nobr noembed noframes noscript object ol optgroup option
    output p param picture plaintext portal pre progress q rp rt ruby s samp script search section select slot small
    source span strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr
    track tt u ul var video wbr xmp
    answer assistant context developer document documents example examples function human instruction instructions
    memories memory message messages prompt result results role rule rules system thinking tool user
"""
_ELEMENTS: Final = frozenset(_NAMES.split())
"""Elements of HTML, and tags that separate the parts of prompts."""
_STRUCTURE: Final = re.compile(r"(?:assistant|context|function|hmx|instructions?|memory|system|tool)[-_:]")
_ANGLE: Final = re.compile(r"<([^<>]*)(>?)")
_NAME: Final = re.compile(r"(/?)([a-z][^\s/]*)(.*)", re.DOTALL)
_OTHER: Final = re.compile(r"!--|![a-z\[]|\?[a-z]|\|[a-z_]+\|$")
"""Comments, declarations, and chat markers such as `<|im_start|>`."""
_ATTRIBUTE: Final = re.compile(r"[\s/](?:on[a-z]+|href|src|style)\s*=")
_SCHEME: Final = re.compile(r"\]\((?=\s*<?\s*(?:javascript|vbscript|data):)", re.IGNORECASE)


def on_one_line(text: str) -> str:
    """Replace invisible characters by pictures (`␛`, `␊`) or `�`, and all kinds of whitespace by spaces."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _picture(c) for c in text)


def in_json(written: bytes) -> bytes:
    """Escape unprintable characters in JSON; the value stays the same."""
    if written.isascii() and b"\x7f" not in written:
        return written
    return "".join(c if c.isprintable() or c == "\n" else _escape(c) for c in written.decode()).encode()


def as_data(text: str) -> str:
    """Remove blank lines and what could be taken for structure; indent the lines after the first."""
    if not (text.isascii() and text.isprintable()):
        text = _UNSEEN.sub("", _COLOURS.sub("", text))
        text = f"\n{INDENT}".join(line for line in text.splitlines() if line.strip())
        text = _CONTROL.sub(lambda found: _picture(found[0]), text)
    if "<" in text:
        text = _ANGLE.sub(
            lambda found: f"&lt;{found[0][1:]}" if _is_tag(found[1].lower(), found[2]) else found[0], text
        )
    if "[" in text and ("](" in text or "][" in text):
        text = _SCHEME.sub(r"]\\(", text)
        end = max(text.rfind("]("), text.rfind("]["))  # an image's alternative text ends like this
        text = text[: max(end, 0)].replace("![", "!\\[") + text[max(end, 0) :]
    return _MARKS.sub(r"(\1)", text) if "[" in text or not text.isascii() else text


def _is_tag(inside: str, end: str) -> bool:
    """Return True for a tag. `a < b`, `<<EOF`, `< file`, `</dev/null`, `Vec<String>` and `<name>` are none."""
    named = _NAME.match(inside)
    if named is None:
        return _OTHER.match(inside) is not None
    closing, name, rest = named.groups()
    known = name in _ELEMENTS or _STRUCTURE.match(name) is not None
    if closing:
        return bool(end) and (known or not rest.strip() or rest[0].isspace())
    return (known and (bool(end) or "=" in rest)) or _ATTRIBUTE.search(rest) is not None


def _escape(character: str) -> str:
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _picture(character: str) -> str:
    if character == "\t" or category(character) == "Zs":
        return " "
    if character < " ":
        return chr(0x2400 + ord(character))
    return "␡" if character == "\x7f" else "\N{REPLACEMENT CHARACTER}"
