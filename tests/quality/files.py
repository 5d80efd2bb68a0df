"""The files that a session will change, and the baseline: what the sessions with the most similar messages changed, by
BM25, the most similar first. Known are the sessions of the same tenant that were over when it began.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hmx_pipeline.advice.files import Files, sessions
from hmx_pipeline.advice.files import SessionFiles as Past
from hmx_pipeline.advice.ranking import Ranking
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.segments.intent import plain_stems
from tests.quality.sessions import Recorded, Session


class Asked(NamedTuple):
    now: Session
    over: list[Session]
    files: set[str]
    met: set[str]
    changed: set[str]
    usual: list[str]

    @property
    def session_id(self) -> str:
        return self.now.session_id

    def wanted(self) -> dict[str, set[str]]:
        """All files of sessions that have a past, and those of them that the past had changed."""
        return {"changed before": self.files & self.changed, "with a past": self.files if self.met else set()}


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
        yield Asked(now, past, wanted, set(files.files), set(files.changed_by), _usual(over, request))


def _over(recorded: Recorded, now: Session) -> list[Session]:
    return [s for s in recorded.sessions if s.tenant_id == now.tenant_id and s.last_at < now.first_at]


def _usual(over: Sequence[Past], request: str) -> list[str]:
    scores = Ranking([past.goal for past in over]).scores(plain_stems(request))
    nearest = sorted(zip(scores, over, strict=True), key=lambda of: (-of[0], of[1].session_id))
    return list(dict.fromkeys(path for score, past in nearest if score > 0 for path in past.changed))
