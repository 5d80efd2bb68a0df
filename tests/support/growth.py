"""How the steps of what reads text or JSON grow with it: `python -m tests.support.growth`, a line of JSON a function.

Each line: the function's name, and for each adversarial shape the steps at its size n and at 4 n (tests.support.steps).
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import count
from typing import Any, Final
from unittest.mock import patch

import msgspec  # noqa: F401  what is imported before `install` is not counted
import numpy  # noqa: F401, ICN001
import orjson
import pydantic  # noqa: F401
import rfc8785  # noqa: F401

from tests.support.steps import STEPS, install

SIZE: Final = 200
"""Characters of a text; of an event's bytes eight times as many."""
EVENT: Final = 8 * SIZE
GROWTH: Final = 5
"""Of steps, at most, where the input is four times as large."""
Family = tuple[Mapping[str, Callable[[Any], Any]], Callable[[int, int], Iterator[tuple[str, Any]]], int]
"""Functions, the shapes of their input, and its size."""
UNITS: Final = (
    "a", "A", "7", " ", "\n", "\r\n", "\t", ".", "-", "_", '"', "'", "\\", "/", ":", "[", "(", "()", "{", "{}", "<",
    "|", "`", "*", "#", "@", "=", ",", ";", "!", "ab cd ef ", "a b c ", "always ", "always never use ",
    "we switched from a to a ", "the database is Postgres. ", "the database is ", "my our ", "not ", "and ", "because ",
    "instead of a use b ", "https://a.b/c?d=e&f ", "http://a.", "a@b.co ", "a@b.", "/a/b/c.py ", "/a.b", "C:\\a\\b ",
    "0f3b9c1d-", "123e4567-e89b-12d3-a456-426614174000 ", "deadbeef", "QUJD+/=", "e\u0301", "\U0001f600",
    "\u6570\u636e", "| a | b |\n|---|---|\n", '  File "/a/b.py", line 3, in f\n    x()\n', "at a.b.C.d(E.java:12)\n",
    "Error: not found: ", "a.b.c.", "a_b_", "aB", "a=b ", "a: b\n", "- a b\n", "1. a\n", "```\na\n```\n", "`a` ",
    "\"'\"'", '{"a":"b"},', '{"a":', '\\"', "--a=b -c ", "a | b && c; ", "2026-01-02 ", "12:34:56 ",
    "2026-01-02T03:04:05Z", "10.0.0.1:80 ", "v1.2.3-", "(a (b ", "1 2 3 ", "1.2.3", "%20", "what is it? ", "It is. ",
    "user: hi\nassistant: ", "I prefer tabs to spaces, ", "you should always use x when ", "\x1b[31m", "a-b-", " \n\t",
    "Anna's cat's ", "Anna Bell ", "last week in May ", "two days ago ", "from a to b ", " = ", "sk-a0000001 ",
    "token ", "password is ", "password=a ", "Bearer ", "4111 1111 ", "-----BEGIN ", "://a:b", "[REDACTED]",
    "if a then b ", "unless a except b ", "of the ",
)  # fmt: skip


def _again(unit: str, size: int, times: int) -> str:
    """Fill at least so many times the size. Where the last unit is cut off is the same for any number of times."""
    left = size % len(unit)
    return unit * -(-(times * size - left) // len(unit)) + unit[:left]


def texts(size: int, times: int = 1) -> Iterator[tuple[str, str]]:
    for unit in UNITS:
        yield f"{unit!r} over and over", _again(unit, size, times)
    most = times * size
    yield "a quote that never ends", '"' + "a" * most
    yield "spaces before a letter", " " * most + "a"
    yield "spaces between letters", "a" + " " * most + "b"
    yield "digits before a letter", "1" * most + "x"
    yield "brackets in each other", "(" * (most // 2) + ")" * (most // 2)
    yield "ever other words", " ".join(f"w{n}" for n in range(most // 5))
    yield "ever other paths", " ".join(f"/a/f{n}.py" for n in range(most // 10))
    yield "ever other names", " ".join(f"N{'abcdefghij'[n % 10]}{'abcdefghij'[n // 10 % 10]}" for n in range(most // 4))
    yield "ever other lines", "\n".join(f"line{n}: x" for n in range(most // 9))
    for unit in ("-----END ", "<a>", "<!--", "--password="):
        yield f"{unit!r} over and over", _again(unit, size, times)


SECRETS: Final = (
    "sk-a%07d", "AKIA%012d", "ghp_%016d", "password=%d", "token: a%08dz", "bearer a%08d", "api_key='%d'", "://u:p%d@",
    "password is a%dB!", "my pin is %06d", "4111 1111 1111 %04d", "--password %d", "cookie: %d", "secret%d",
)  # fmt: skip


def contents(size: int, times: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    said = list(texts(size, times))
    size *= times
    for shape in SECRETS:
        made = [shape % number for number in range(size // (len(shape) + 9))]
        yield f"keys {shape}", dict.fromkeys(made, 1)
        yield f"values {shape}", {f"k{number:05}": text for number, text in enumerate(made)}
        yield f"items {shape}", {"items": made}
        yield f"words {shape}", {"role": "user", "text": " ".join(made)}
        yield f"run {shape}", {"role": "user", "text": "".join(made)}
        yield f"JSON in a text {shape}", {"text": orjson.dumps(dict.fromkeys(made, 1)).decode()}
    yield "numbers", {"items": [1] * (size // 2)}
    yield "floats", {"items": [1.0] * (size // 4)}
    yield "keys", {f"n{number:05}": 1 for number in range(size // 9)}
    yield "empty lists", {"items": [[]] * (size // 3)}
    yield "objects", {"items": [{"a": 1}] * (size // 8)}
    yield "names and values", {"items": [{"name": "cookie", "value": "x"}] * (size // 32)}
    yield "counts of tokens", {"tokens_used": {f"k{number:05}": 1 for number in range(size // 9)}}
    yield "deep lists", {"items": [reduce(lambda inner, _: [inner], range(150), [1])] * (size // 300)}
    yield "wrong attachments", {"role": "user", "text": "x", "attachments": [1] * (size // 2)}
    yield "JSON with escapes", {"text": '["' + "\\u0070" * (size // 7) + '"]'}
    for name, text in said[::3]:
        yield f"text {name}", {"role": "user", "text": text}
    for name, text in said[1::5]:
        yield f"output {name}", {"tool_name": "bash", "output": text, "success": False, "call_id": "c"}
    yield "letters that unfold", {"text": "\ufdfa" * (size // 3) + " \uff50\uff41\uff53\uff53word=hunter22"}


def of_events() -> dict[str, Callable[[dict[str, Any]], Any]]:
    from hmx_pipeline.contracts.event_types import EVENT_TYPES
    from hmx_pipeline.intake.decode import decode
    from hmx_pipeline.intake.deviations import notes
    from hmx_pipeline.intake.redaction import redact
    from hmx_pipeline.intake.steps import step_of
    from hmx_pipeline.retrieval.searchable import document, episode_step
    from hmx_pipeline.retrieval.terms import strings
    from tests.support.records import event

    def typed(kind: str) -> Callable[[dict[str, Any]], Any]:
        return lambda content: step_of({**event(), "event_type": kind, "content": content}, 0, 0)

    def searched(content: dict[str, Any]) -> Any:
        fields = event()
        record = {
            "id": fields["event_id"], "eventType": "message", "sessionId": "s", "timestamp": fields["timestamp"],
            "payload": content, "metadata": {
                "hmx": {"tenant_id": "t", "agent_id": "a", "origin": {"log_time": 0}, "release": {"index": 0}}
            },
        }  # fmt: skip
        return document(record, episode_step(record))

    return {
        "decode": lambda content: decode(  # a later minor takes all checks, however short it is
            orjson.dumps({**event(), "hmx_version": "HMX-1.1", "content": content, "more": content})
        ),
        "redact": lambda content: redact({**event(), "content": content}),
        "notes": lambda content: notes("message", content),
        "document": searched,
        "strings": lambda content: list(strings(content)),
        **{f"step_of {kind}": typed(kind) for kind in [*EVENT_TYPES, "x-acme-thing"]},
    }


def of_texts() -> dict[str, Callable[[str], Any]]:
    from hmx_pipeline.compiler.extract import contributions
    from hmx_pipeline.compiler.knowledge import (
        asserted,
        claim_names,
        claims,
        classifier,
        corrections,
        endings,
        forms,
        normal_forms,
        pasted,
        plain_statements,
        renewals,
        rules,
        statements,
        updates,
        validity,
    )
    from hmx_pipeline.compiler.knowledge.language import TONGUES
    from hmx_pipeline.contracts.event_types import Role
    from hmx_pipeline.contracts.evidence import Segment, Step
    from hmx_pipeline.intake import pack_echo, secret_rules
    from hmx_pipeline.languages import cues
    from hmx_pipeline.packs import assembly_strategies, excerpt, near_duplicates, render, rendered, tokens
    from hmx_pipeline.retrieval import fit, paraphrase, retrieval_plan, searchable, terms, times
    from hmx_pipeline.segments import action_names as verbs
    from hmx_pipeline.segments import (
        commands,
        file_paths,
        intent,
        lexicon,
        masking,
        segment_boundary,
        speakers,
        targets,
    )

    def said(text: str) -> Step:
        return Step("e", 0, Role.MESSAGE, 0, "user", "", text)

    def learnt(text: str) -> Any:
        """A goal, a call and its failing result, and what was said then; each text as long as a step's may be."""
        steps = (
            said(text[:600]),
            Step("c", 1, Role.CALL, 1, "", "bash", text[:600], (text[:80],), None, "1"),
            Step("r", 2, Role.RESULT, 2, "", "bash", text[:600], (), False, "1"),
            Step("m", 3, Role.MESSAGE, 3, "user", "", text[:600]),
        )
        return contributions(Segment(tenant_id="t", session_id="s", agent_id="a", segment_id="e", steps=steps))

    def whole(function: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda text: list(found) if hasattr(found := function(text), "__next__") else found

    plain = (
        masking.mask_ids, masking.mask, masking.telling_line,
        masking.unlabelled, masking.readable,
        masking.sentence, intent.stem, intent.content_words, intent.plain_stems,
        intent.plain_words, intent.intent, intent.question_key, intent.option_key, verbs.tool_of,
        verbs.words_of, verbs.phrase_of, verbs.mutates, verbs.checks, verbs.phase_of, verbs.silent,
        file_paths.file_named, file_paths.files_in, file_paths.files_removed, file_paths.located_lines,
        file_paths.identifiers, file_paths.dotted_names, file_paths.name_parts,
        targets.names_in, speakers.speaker_of, lexicon.word_set, plain_statements.sentences,
        plain_statements.spelt_out, plain_statements.clauses, plain_statements.without_trail, forms.negation_first,
        claim_names.value_of, pasted.without_pasted, asserted.asserted, corrections.comment_text,
        plain_statements.spoken, plain_statements.stated, plain_statements.plainly, classifier.scores,
        classifier.buckets,
        rules.policy, rules.listed, cues.cue, normal_forms.words_within, normal_forms.family, updates.updates,
        claims.policy_claim, searchable.is_courtesy, terms.words, terms.terms, terms.shapes, terms.masks, times.mention,
        pack_echo.own_words, commands.simple_commands, commands.whole_line, commands.wordlike, commands.is_option,
        commands.quoted, render.marked, near_duplicates.mark, near_duplicates.words, near_duplicates.folded,
        tokens.estimate, excerpt.pieces,
    )  # fmt: skip
    return {
        **{f"{one.__module__.removeprefix('hmx_pipeline.')}.{one.__name__}": whole(one) for one in plain},
        "excerpt.excerpt": lambda text: excerpt.excerpt(text, dict.fromkeys(terms.terms(text), 1), len(text) // 2),
        "shown.again": lambda text: rendered.again(text, 3, 10**12),
        "normal.touches": lambda text: normal_forms.touches(text, "uses", text, plural=True),
        "endings.names_it": endings.names_it,
        "endings.is_anybody": endings.is_anybody,
        "endings.of_renewal": lambda text: list(endings.of_renewal({"about": text.split(), "values": []}, text)),
        "endings.of_farewell": lambda text: list(
            endings.of_farewell({"names": text.split(), "about": [], "new": text}, text)
        ),
        "renewals.farewells": renewals.farewells,
        "renewals.is_replaced": lambda text: renewals.is_replaced(text, text),
        "renewals.topic": lambda text: renewals.topic(text, text, text, anybody=True),
        "renewals.renewals": renewals.renewals,
        "renewals.renewed": lambda text: renewals.renewed(text, [("May 3", ["date"]), ("17", ["# a", "#2"])]),
        "validity.validity": lambda text: validity.validity(text, 10**12),
        "updates.says_changed": lambda text: updates.says_changed(text, TONGUES["en"]),
        "updates.named": lambda text: updates.named(TONGUES["de"], text),
        "stated.whole": lambda text: statements.whole(text, TONGUES["ja"]),
        **{
            f"stated.statement_of in {code}": lambda text, tongue=tongue: statements.statement_of(
                text, tongue, changed=True
            )
            for code, tongue in TONGUES.items()
        },
        **{
            f"updates.read in {code}": lambda text, tongue=tongue: updates.read(tongue, text)
            for code, tongue in TONGUES.items()
        },
        "claims.claims": lambda text: claims.claims(text, "user"),
        "naming.subject_of": lambda text: claim_names.subject_of(text, "user"),
        "naming.named": lambda text: claim_names.named(text, "user"),
        "verbs.blamed": lambda text: verbs.blamed(text, text),
        "commands.within": lambda text: commands.within(text[:40], text),
        "commands.call": lambda text: commands.call(text, [(text[:40], text)]),
        "masking.what_failed": lambda text: masking.what_failed(text, text),
        "masking.mask_ids of values": lambda text: masking.mask_ids(text, text.split()[:12]),
        "masking.shorten": lambda text: masking.shorten(text, 80),
        "targets.target_of a command": lambda text: targets.target_of("bash", (text,)),
        "targets.targets_of a line": lambda text: targets.targets_of("bash", (text,)),
        "targets.target_of a file": lambda text: targets.target_of("read_file", (text,)),
        "plan.classify": lambda text: retrieval_plan.classify(text, terms.words(text)),
        "times.time_reference": lambda text: times.time_reference(text, 10**12),
        "documents.label": lambda text: searchable.label("kind", text),
        "segmenter.open_head": lambda text: segment_boundary.open_head(said(text)),
        "segmenter.starts_new": lambda text: segment_boundary.starts_new(
            segment_boundary.open_head(said("go on")), said(text), lambda _: text
        ),
        "extract.contributions": learnt,
        "secret_rules.in_other_letters": lambda text: secret_rules.in_other_letters(
            text.encode(errors="surrogatepass")
        ),
        "fit.bound": lambda text: fit.bound(
            {"slots": {"a": {"source": "goal", "like": text.split()[:9]}}, "goals": [text, f"Take <a> {text}"]},
            fit.Question(text, [text], [{"slots": {"b": {"source": "goal", "like": text.split()}}}]),
        ),
        "wording.nearness": lambda text: paraphrase.nearness(text, [[text], ["Take <a> home"]]),
        "shown.shown": lambda text: rendered.shown(text, text),
        "strategies.favoured": lambda text: assembly_strategies.favoured({"terms": {"deploi": 0.5}}, 1.0, "p", text),
    }


def _steps(function: Callable[[Any], Any], given: Any) -> int:
    before = STEPS.count
    function(given)
    return STEPS.count - before


def prepare() -> None:
    """From now on steps are counted, and nothing is remembered."""
    install()
    from hmx_pipeline.contracts import bounded_cache  # the one that counts: `install` has modules imported anew

    patch.object(bounded_cache, "remembered", lambda *_: lambda function: function).start()


def main(names: list[str]) -> None:
    prepare()
    number = count(10_000)  # as long for each, so that a function alone takes the steps that it takes among all

    def other(given: Any) -> Any:
        """Not what a cache has seen."""
        return f"{given} {next(number)}" if isinstance(given, str) else {**given, "other": next(number)}

    families: tuple[Family, ...] = ((of_texts(), texts, SIZE), (of_events(), contents, EVENT))
    for functions, shapes, size in families:
        made, larger = dict(shapes(size, 1)), dict(shapes(size, 4))
        for name, function in functions.items():
            if names and not any(one in name for one in names):
                continue
            for given in made.values():  # what is made when it is first needed is no input's
                function(other(given))
            found = {}
            for shape in made:
                small, large = (_steps(function, other(each[shape])) for each in (made, larger))
                if large > GROWTH * small:  # it may have needed something first
                    large = _steps(function, other(larger[shape]))
                found[shape] = small, large
            print(json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
