"""E6: are the files that a session will change among the first that its first message makes likely? Known are the
sessions that were over when it began, of the same tenant. Asked for are all files of sessions that have such a past, or
those of them that the past had changed: of the one set the one, of the other the other has the baseline that the bars
were set beside. The shares of other files stand below. Baseline: what the sessions with the most similar messages
changed, by BM25, the most similar first.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pipeline.advice.files import Files, sessions
from pipeline.advice.files import Session as Past
from pipeline.advice.ranking import Ranking
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution
from pipeline.segments.intent import plain_stems
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.sessions import Recorded, Session, Sessions

_RANKS: Final = (5, 10)
_BARS: Final = {
    "claude_code": ("changed before", {5: Bar(least=0.32, proven=True), 10: Bar(least=0.43, proven=True)}),
    "swe": ("with a past", {5: Bar(least=0.32, proven=True), 10: Bar(least=0.39, proven=True)}),
}


class Asked(NamedTuple):
    now: Session
    over: list[Session]
    files: set[str]
    met: set[str]
    changed: set[str]
    advised: list[str]
    usual: list[str]

    @property
    def session_id(self) -> str:
        return self.now.session_id

    def wanted(self) -> dict[str, set[str]]:
        return {
            "changed before": self.files & self.changed,
            "met before": self.files & self.met,
            "with a past": self.files if self.met else set(),
            "of all files": self.files,
        }


def task(asked: Sessions) -> Iterator[Figure]:
    for name, (barred, bars) in _BARS.items():
        found = list(cases(asked.of(name)))
        for of in ("changed before", "met before", "with a past", "of all files"):
            for rank in _RANKS:
                recalls = [_recall(case, wanted, rank) for case in found if (wanted := case.wanted()[of])]
                yield paired(
                    "files", f"{name} by time", f"R@{rank} {of}", recalls, bars[rank] if of == barred else None
                )


def _recall(case: Asked, wanted: set[str], rank: int) -> Case:
    advised, usual = (len(wanted.intersection(named[:rank])) / len(wanted) for named in (case.advised, case.usual))
    return Case(case.session_id, advised, usual)


def cases(recorded: Recorded) -> Iterator[Asked]:
    touched: defaultdict[tuple[str, str], list[Contribution]] = defaultdict(list)
    for contribution in recorded.of_kind("touched"):
        touched[contribution.tenant_id, contribution.session_id].append(contribution)
    for now in recorded.sessions:
        wanted = set(now.label.get("files_edited") or now.label.get("files_changed") or ())
        request = next((s.text for s in now.steps if s.role is Role.MESSAGE and s.actor == "user"), "")
        if not wanted or not request:
            continue
        past = _over(recorded, now)
        over = sessions(c for one in past for c in touched[now.tenant_id, one.session_id])
        files = Files(over)
        advised = [file.path for file in files.likely(request, now.agent_id)[: _RANKS[-1]]]
        yield Asked(now, past, wanted, set(files.files), set(files.changed_by), advised, _usual(over, request))


def _over(recorded: Recorded, now: Session) -> list[Session]:
    return [s for s in recorded.sessions if s.tenant_id == now.tenant_id and s.last_at < now.first_at]


def _usual(over: Sequence[Past], request: str) -> list[str]:
    scores = Ranking([past.goal for past in over]).scores(plain_stems(request))
    nearest = sorted(zip(scores, over, strict=True), key=lambda of: (-of[0], of[1].session_id))
    return list(dict.fromkeys(path for score, past in nearest if score > 0 for path in past.changed))
