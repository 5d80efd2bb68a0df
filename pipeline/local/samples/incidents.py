"""What the platform team of `acme` is called for at night."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from pipeline.local.samples.story import Story

TENANT = "acme"


class Incident(NamedTuple):
    at: str
    agent: str
    service: str
    symptom: str
    wish: str
    cause: str
    broad: bool = False
    """The first search of the logs asks for too much."""
    slots: str = ""
    """The database has no connections left; what is done about it: `pool`, `kill`, `wait`."""
    solved: bool = True


INCIDENTS = (
    Incident("02-02 22:41", "agent-noor", "checkout", "5xx rate 7 %",
        "Look into the checkout service, it answers 502 since 22:30.",
        "connection pool exhausted after the nightly import", broad=True, slots="pool"),
    Incident("02-04 03:12", "agent-ivo", "catalog", "p99 latency 9 s",
        "Investigate the catalog api, every third request times out.",
        "one shard holds half of all documents", broad=True),
    Incident("02-05 21:50", "agent-rhea", "mailer", "queue age 40 min",
        "Find out why the mailer service is falling behind.",
        "the provider throttles us to 10 messages a second"),
    Incident("02-07 01:33", "agent-noor", "ledger", "5xx rate 3 %",
        "Diagnose the ledger api: every nightly run fails.",
        "invoice run opens one connection a customer", broad=True, slots="kill"),
    Incident("02-09 23:05", "agent-ivo", "cart", "memory at 96 %",
        "Investigate the cart service, its memory only grows.",
        "sessions were never evicted", broad=True),
    Incident("02-12 02:20", "agent-rhea", "checkout", "5xx rate 11 %",
        "Look into the checkout api please, it is down again.",
        "two deployments share one connection pool", slots="wait", broad=True),
    Incident("02-14 04:44", "agent-noor", "catalog", "no answers",
        "Find out why the catalog service answers nothing.",
        "the index alias points to a deleted index", solved=False),
    Incident("02-17 22:18", "agent-ivo", "ledger", "5xx rate 5 %",
        "Investigate the ledger service, half of it hangs.",
        "pool size was reset by the last release", broad=True, slots="pool"),
)  # fmt: skip

_SLOTS = "remaining connection slots are reserved for roles with the SUPERUSER attribute"


def incidents() -> Iterator[Story]:
    for number, row in enumerate(INCIDENTS, 1):
        at = datetime.fromisoformat(f"2026-{row.at}:00+00:00")
        story = Story(TENANT, f"incident-{number:02d}-{row.service}", row.agent, at, ("incident",))
        page = story.event(
            "x-acme-page",
            {"summary": f"{row.service}: {row.symptom}", "severity": "high", "runbook": f"wiki/{row.service}"},
            "pager",
            salience=1.0,
        )
        story.user(row.wish)
        story.call("get_alert", {"service": row.service}, {"text": f"{row.symptom}, firing for {6 + number} minutes"})
        story.call(
            "query_metrics", {"service": row.service, "range": "1h"}, {"text": f"{row.symptom}; traffic as usual"}
        )
        _search_logs(story, row, number)
        if row.slots:
            _no_connections(story, row)
        story.run(f"kubectl get pods -n production -l app={row.service}", f"3/3 running, {number} restarts")
        if not row.solved:
            _given_up(story, row, page)
        else:
            _mitigated(story, row, number)
        yield story


def _search_logs(story: Story, row: Incident, number: int) -> None:
    if row.broad:
        lines = 1_204_311 + 77_003 * number
        story.call(
            "search_logs",
            {"service": row.service, "range": "24h", "text": "error"},
            {"text": f"query too broad: {lines} lines match, 100000 are allowed; narrow the time range"},
            ok=False,
        )
    arguments = {"service": row.service, "range": "15m", "text": "level=error"}
    story.call("search_logs", arguments, {"text": f"{40 + number} lines; most frequent: {row.cause}"})


def _no_connections(story: Story, row: Incident) -> None:
    query = f"psql -f sql/connections.sql -h db-{row.service}"
    story.run(query, ok=False)
    story.error("OperationalError", f"FATAL: {_SLOTS}")
    match row.slots:
        case "pool":
            story.run("kubectl rollout restart deploy/pgbouncer -n data", "deployment.apps/pgbouncer restarted")
        case "kill":
            story.call("terminate_idle_sessions", {"database": row.service, "older_than": "10m"}, {"text": "212 ended"})
        case _:
            story.observe(f"the nightly report of {row.service} has ended and given back 80 connections")
    story.run(query, "idle 31, active 12")


def _mitigated(story: Story, row: Incident, number: int) -> None:
    story.decide(
        f"Restart {row.service} or roll it back?",
        "restart",
        ["roll back", "scale out"],
        f"The cause is known ({row.cause}) and no release came before it.",
        0.6 + number / 50,
    )
    story.run(f"kubectl rollout restart deploy/{row.service} -n production", f"deployment.apps/{row.service} restarted")
    story.call("query_metrics", {"service": row.service, "range": "10m"}, {"text": "back to normal"})
    if number % 2:
        story.event(
            "api_result",
            {"api": "POST https://status.acme.example/incidents", "success": True, "result": {"state": "monitoring"}},
            "tool:http",
        )
    told = story.agent(f"{row.service} has recovered. Cause: {row.cause}. I have written it into the incident's page.")
    if number in (1, 4):
        story.feedback("positive", "Good find, and well explained.", told)
    elif number == 5:
        story.feedback("correction", "Please link the dashboard in the summary next time.", told)
        story.agent("Noted; the dashboard is linked now.")
    else:
        story.user("Thanks, back to bed.")


def _given_up(story: Story, row: Incident, page: str) -> None:
    story.run(
        f"kubectl rollout restart deploy/{row.service} -n production",
        "error: deployment exceeded its deadline",
        ok=False,
    )
    story.agent(f"Restarting did not help. I suspect that {row.cause}. Handing over to the catalog team.")
    story.feedback("negative", "It took 40 minutes to hand this over.", page)
