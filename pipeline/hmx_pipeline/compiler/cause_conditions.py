"""Conditions and counterexamples of a causal pattern, in words.

Input: a pair of cause and effect with its cases. Output: at most three conditions and five counterexamples, the
sentences of the artifact's content.
"""

from collections import Counter
from typing import Final

from hmx_pipeline.compiler.artifact_text import plural
from hmx_pipeline.compiler.association import by_chance
from hmx_pipeline.compiler.causes import CausePair
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.segments.action_names import phrase_of
from hmx_pipeline.segments.event_text import cause_words
from hmx_pipeline.segments.masking import sentence

_NEARLY_NONE: Final = 0.1
_OFTEN: Final = 4  # rarer conditions could not be significant
_CHANCE: Final = 0.05
_CONDITIONS: Final = 3
_EXAMPLES: Final = 5


def conditions(pair: CausePair) -> list[str]:
    """Return what came before in nearly all cases and in no exception, or the reverse, if the difference is
    significant."""
    return [
        f"{sentence(cause_words(sign))} came before" if needed else f"{sentence(cause_words(sign))} did not come before"
        for sign, needed in _telling(pair)
    ][:_CONDITIONS]


def _telling(pair: CausePair) -> list[tuple[str, bool]]:
    """Return significant signs that came before, and whether each is needed or prevents the effect. A preventing sign
    need not explain every exception."""
    hits, misses = _sides(pair)
    good, bad = ([set(c.body["held"]) - {pair.cause} for c in side] for side in (hits, misses))
    counts = Counter(sign for own in (*good, *bad) for sign in own)
    often = sorted(sign for sign, count in counts.items() if count >= _OFTEN)
    found = []
    for sign in often:
        held, elsewhere = (sum(sign in own for own in side) for side in (good, bad))
        if elsewhere <= _NEARLY_NONE * len(bad) and held >= (1 - _NEARLY_NONE) * len(good):
            found.append((by_chance(held, len(good), elsewhere, len(bad)), sign, True))
        elif held <= _NEARLY_NONE * len(good):
            found.append((by_chance(elsewhere, len(bad), held, len(good)), sign, False))
    sure = sorted((round(chance, 9), sign, needed) for chance, sign, needed in found)
    return [(sign, needed) for chance, sign, needed in sure if chance * 2 * len(often) <= _CHANCE]


def _sides(pair: CausePair) -> tuple[list[Contribution], list[Contribution]]:
    """Return the contributions of hits and of exceptions; one with both counts as a hit."""
    hit = {time.of.contribution_id: time.of for time, was in pair.cases if was}
    missed = {
        time.of.contribution_id: time.of for time, was in pair.cases if not was and time.of.contribution_id not in hit
    }
    return list(hit.values()), list(missed.values())


def counterexamples(pair: CausePair) -> list[str]:
    """Return the cases in which the effect did not follow, most frequent first."""
    guards = [sign for sign, needed in _telling(pair) if not needed]
    told = Counter(_told(pair, time.of, guards) for time, hit in pair.cases if not hit)
    shown = sorted(told, key=lambda text: (-told[text], text))[:_EXAMPLES]
    return [text if told[text] == 1 else f"{text} ({plural(told[text], 'time')})" for text in shown]


def _told(pair: CausePair, c: Contribution, guards: list[str]) -> str:
    held = c.body["held"]
    guard = next((f" after {cause_words(sign)}" for sign in guards if sign in held), "")
    what = f"{phrase_of(pair.verb)} went otherwise" if pair.verb else "it did not follow"
    goal = f" (“{c.body['goal']}”)" if c.body["goal"] else ""
    return sentence(f"{what}{guard}{goal}")
