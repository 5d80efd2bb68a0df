"""Knowledge in a real Redis: what of it packs show, and where."""

from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import Entry
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import KNOWLEDGE
from tests.support.memory import Memory, episode, episode_as_read
from tests.support.records import START_MS, event
from tests.support.talk import knowledge_of, said


def as_read(records: list[dict[str, Any]]) -> list[TopicRecord]:
    return [
        TopicRecord(KNOWLEDGE, 0, n, join_key(r["tenant_id"], r["record_id"]).encode(), orjson.dumps(r), [])
        for n, r in enumerate(records)
    ]


def shown(memory: Memory, query: str, section: Section, **asked: Any) -> list[str]:
    entries: list[Entry] = [e for e in memory.pack(query, **asked).entries if e.section is section]
    return [entry.content for entry in entries]


@pytest.mark.requirement("T-05")
def test_a_policy_stands_in_the_core_whatever_is_asked(memory: Memory) -> None:
    memory.write(*as_read(knowledge_of(said("s", "Always run the linter before committing."))))
    (text,) = shown(memory, "what is the weather", Section.CORE)
    assert "Always run the linter before committing" in text


@pytest.mark.requirement("Y03")
def test_what_has_been_replaced_is_not_shown_but_resolves(memory: Memory) -> None:
    records = knowledge_of([*said("s1", "Our database is Postgres."), *said("s2", "Our database is MySQL.", at=1)])
    memory.write(*as_read(records))
    (text,) = shown(memory, "which database do we have", Section.FACTS)
    assert "Our database is MySQL" in text
    assert [memory.store.get_knowledge("acme", r["record_id"]) for r in records] == records


def test_goals_and_conflicts_have_their_sections(memory: Memory) -> None:
    memory.write(
        *as_read(
            knowledge_of(
                [
                    *said("s1", "My goal is to ship version 2 in May."),
                    *said("s2", ("assistant", "The billing service runs on Nomad."), at=1),
                    *said("s3", ("assistant", "The billing service runs on Mesos."), at=2),
                ]
            )
        )
    )
    assert any("ship version 2" in text for text in shown(memory, "ship version", Section.GOALS))
    (conflict,) = shown(memory, "where does billing run", Section.CONFLICTS)
    assert "Nomad" in conflict
    assert "Mesos" in conflict


def test_a_pack_filtered_by_tags_shows_what_rests_on_events_that_carry_them(memory: Memory) -> None:
    tagged = said("s1", "We use Redis.", "Always run the linter first.", tags=["infra"])
    other = said("s2", "We use Kafka.", "Never push to main directly.", at=1)
    memory.write(*as_read(knowledge_of([*tagged, *other])))
    assert len(shown(memory, "what do we use", Section.FACTS)) == 2
    assert len(shown(memory, "what do we use", Section.FACTS, tags=["infra"])) == 1
    assert len(shown(memory, "what do we use", Section.CORE, tags=["infra"])) == 1
    assert shown(memory, "what do we use", Section.CORE, tags=["other"]) == []


def test_an_erased_record_leaves_nothing_behind_but_that_its_id_has_changed(memory: Memory) -> None:
    records = as_read(knowledge_of(said("s", "We use Redis.", tags=["infra"])))
    memory.write(*records)
    memory.write(*(record._replace(offset=len(records) + n, value=None) for n, record in enumerate(records)))
    tenant = memory.keys.tenant("acme")
    assert set(memory.dump()) == {
        key.removeprefix(memory.keys.prefix.encode())
        for key in (
            memory.keys.positions,
            memory.keys.guard(f"{KNOWLEDGE}/0"),
            memory.keys.tenants,
            tenant.version,
            tenant.knowledge_changes(0),
        )
    }


def corrected(session: str, command: str, text: str, at: int = 0, **fields: Any) -> list[dict[str, Any]]:
    """A session in which a command was rejected with these words."""
    happened: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": "Publish the shop"}),
        ("command_exec", {"command": command, "exit_code": 0}),
        ("feedback", {"signal": "correction", "comment": text}),
    ]
    return [
        event(
            session, n, at=START_MS - 86_400_000 + 60_000 * at + 1_000 * n, event_type=kind, content=content, **fields
        )
        for n, (kind, content) in enumerate(happened)
    ]


@pytest.mark.requirement("C-03", "C-04")
def test_a_correction_stands_among_the_facts_of_whoever_is_about_to_do_the_same(memory: Memory) -> None:
    records = knowledge_of(
        [
            *corrected("s1", "git push --force", "never force a push"),
            *corrected("s2", "git tag v2", "sign the tag first", at=1),
            *said("s3", "Our shop runs on Argo.", at=2),
        ]
    )
    memory.write(*as_read(records))
    entries = memory.pack("Bash git push origin main", sections=["facts"]).entries
    assert "user on git push: never force a push" in entries[0].content
    record = memory.store.get_knowledge("acme", entries[0].source_id)
    assert record is not None
    assert record["source_events"] == ["s1-2"]
    named = shown(memory, "how do we publish the shop", Section.FACTS)
    assert len(named) == 3
    assert "Argo" in named[0]
    assert shown(memory, "git push", Section.FACTS, tenant="other") == []


def test_a_pack_that_no_correction_has_anything_to_do_with_is_as_without_them(memory: Memory) -> None:
    memory.write(*as_read(knowledge_of(said("s1", "Our database is Postgres.", "We use Kafka."))))
    before = memory.pack("which database do we have", explain=True)
    offset = len(memory.dump())
    later = as_read(knowledge_of(corrected("s2", "git push --force", "never do that")))
    memory.write(*(record._replace(offset=record.offset + offset) for record in later))
    after = memory.pack("which database do we have", explain=True)
    assert after.entries == before.entries != []
    assert after.dropped_entries == before.dropped_entries
    assert after.token_budget == before.token_budget
    query, told = "which database do we have", {"agent_id": "agent", "sections": ["facts"]}
    assert len(shown(memory, query, Section.FACTS, **told)) == 2


@pytest.mark.parametrize(
    ("query", "left", "lines"), [("how do we publish the data migration", 1.0, 0), ("colour1 migration", 0.875, 8)]
)
def test_a_team_that_corrects_much_still_reads_what_was_said(
    memory: Memory, query: str, left: float, lines: int
) -> None:
    names = ["".join(chr(ord("a") + int(digit)) for digit in f"{n:03}") for n in range(150)]
    turns = [f"The data migration of shop {name} takes hours, then {name}er runs the step {name}ing." for name in names]
    memory.write(*(episode_as_read(episode(f"e{n}", text, index=n), n) for n, text in enumerate(turns)))
    asked: dict[str, Any] = {"agent_id": "agent", "token_budget": 4096}
    before = _tokens_of_episodes(memory, query, **asked)
    words = [f"colour{n % 4} " + " ".join(f"step{n}{way}" for way in "abcdefghijkl") for n in range(60)]
    told = knowledge_of([e for n, text in enumerate(words) for e in corrected(f"c{n}", f"tool{n} run", text, at=n)])
    memory.write(*as_read(told))
    assert len(shown(memory, query, Section.FACTS, **asked)) == lines
    assert _tokens_of_episodes(memory, query, **asked) >= left * before > 2_000


def _tokens_of_episodes(memory: Memory, query: str, **asked: Any) -> int:
    entries = memory.pack(query, **asked).entries
    return sum(entry.token_estimate for entry in entries if entry.section is Section.EPISODES)


def test_what_a_process_remembers_of_corrections_is_what_a_new_one_reads(memory: Memory) -> None:
    first = knowledge_of(corrected("s1", "git push --force", "never force a push"))
    memory.write(*as_read(first))
    asked = ("Bash git push", "publish the shop")
    assert all(memory.pack(query).entries for query in asked)
    both = knowledge_of(
        [*corrected("s1", "git push --force", "never force a push"), *corrected("s2", "git push", "sign it", at=1)]
    )
    memory.write(*(record._replace(offset=record.offset + 10) for record in as_read(both)))
    anew = Store([memory.client], memory.keys)
    for query in asked:
        request = plan(PackRequest(query=query, tenant_id="acme"))
        fresh, kept = ([(f.source, f.bm25) for f in store.fetch(request).knowledge] for store in (anew, memory.store))
        assert fresh == kept != []
    gone = [record._replace(offset=record.offset + 20, value=None) for record in as_read(both)]
    memory.write(*gone)
    assert memory.pack("Bash git push").entries == []
