"""`hmx dlq`: rejected records by reason; `hmx dlq replay`: sends back those that would be accepted now.

Enters: the dead letter topics, and which letters to take. Leaves: counts by reason with an example each; or, with
`--yes`, records at the end of the events topic.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Annotated, Final

import typer

from hmx_pipeline.audit.dead_letter_replay import ReplaySummary, send_back
from hmx_pipeline.audit.dead_letter_report import DeadLetterReport, by_reason, readable
from hmx_pipeline.audit.source_rows import Row
from hmx_pipeline.cli.console import OUT, AsJson, as_typed, many, plain, print_json, saying, table
from hmx_pipeline.cli.verify import place_of
from hmx_pipeline.contracts.timestamps import NS_PER_MS, format_ms, parse_instant
from hmx_pipeline.kafka.clients import Cluster, Watermarks, read_partition
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.queries.dead_letter_policy import LetterFilter, ReplayDecision
from hmx_pipeline.queries.rejected_records import row_of
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS_DLQ, EVIDENCE_DLQ

_AGE: Final = re.compile(r"(\d{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

group: Final = typer.Typer(add_completion=False)


@group.callback(invoke_without_command=True)
def dlq(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option(help="Only records that name this tenant.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Read only the newest N offsets of each partition.")] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show the beginning of each example's value; it may hold secrets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Shows rejected records by reason: how many, an example, and what to do about them.

    Exit code: 0 shown, even if there are none. Example: hmx dlq --limit 1000
    """
    if context.invoked_subcommand is not None:
        given = {"--tenant": tenant, "--limit": limit, "--show-values": show_values, "--json": as_json}
        if early := [option for option, value in given.items() if value not in (None, False)]:
            raise typer.BadParameter(f"{early[0]} stands before replay, which has options of its own after it")
        return
    settings = Settings.load()
    found = [letters for topic in (EVENTS_DLQ, EVIDENCE_DLQ) for letters in _read(settings, topic, tenant, limit)]
    if as_json:
        total = sum(letters.count for letters in found)
        print_json({"dead_letters": total, "reasons": [letters.as_json(show_values) for letters in found]})
    else:
        _show(found, show_values, tenant, limit)


def _read(settings: Settings, topic: str, tenant: str | None, limit: int | None) -> list[DeadLetterReport]:
    partitions = existing_topics(settings, topic)[topic]
    name = settings.topic_prefix + topic
    with closing(Cluster(settings.require_kafka())) as cluster:
        parts = (_rows(cluster, name, partition, limit) for partition in range(partitions))
        return by_reason(topic, filter(LetterFilter(tenant=tenant).selects, chain.from_iterable(parts)))


def _rows(cluster: Cluster, name: str, partition: int, limit: int | None) -> Iterator[Row]:
    low, high = cluster.watermarks(name, partition)
    start = low if limit is None else max(low, high - limit)
    return map(row_of, read_partition(cluster.kafka, name, partition, Watermarks(start, high)))


def _show(found: list[DeadLetterReport], show_values: bool, tenant: str | None, limit: int | None) -> None:
    if not found:
        named = "" if tenant is None else f" name the tenant {plain(tenant)}"
        newest = "" if limit is None else f" in the newest {limit:,} offsets of each partition"
        OUT.print(f"no dead letters{named}{newest}")
        return
    for topic in dict.fromkeys(letters.topic for letters in found):
        ours = [letters for letters in found if letters.topic == topic]
        rows = [(letters.reason, letters.step, letters.count) for letters in ours]
        OUT.print(table(topic, ("reason", "step", "records"), rows))
        for letters in ours:
            _show_example(letters, show_values)
        OUT.print()


def _show_example(letters: DeadLetterReport, show_values: bool) -> None:
    example = letters.example
    where = f"{example.partition}:{example.offset}, from {example.origin} at {format_ms(example.log_time)}"
    OUT.print(f"\n[bold]{plain(letters.reason)}[/] [dim]{plain(where)}[/]", soft_wrap=True)
    said = {
        "key": readable(example.key),
        "path": example.path,
        "detail": example.detail,
        "advice": letters.advice if letters.advice != example.detail else "",
        "value": readable(example.value) if show_values else None,
    }
    for name, value in said.items():
        if value:
            OUT.print(f"  [dim]{name:<7}[/]{plain(' '.join(value.split()))}")


@group.command()
def replay(
    reason: Annotated[list[str] | None, typer.Option(help="Only this reason; repeatable.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="AGE", help="Only letters newer than this: 30m, 2h, 7d, or an RFC 3339 time.")
    ] = None,
    offset: Annotated[list[str] | None, typer.Option(metavar="P:O", help="Only this dead letter; repeatable.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Also send letters that would be rejected again.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Send them; without it nothing is sent.")] = False,
    as_json: AsJson = False,
) -> None:
    """Sends dead letters back to the events topic if they would be accepted now. Without --yes: a dry run.

    A letter is sent with its original bytes, its session's key, and headers that name the dead letter and the first
    origin. No letter is sent twice. A replay that starts later stops an earlier one. If the session has moved on, the
    event is released late.

    Exit code: 0 shown or all sent, 1 Kafka refused some: run it again.

    Example: hmx dlq replay --reason wrong_partition --since 2h --yes
    """
    asked = LetterFilter(
        reasons=frozenset(reason or ()),
        tenant=tenant,
        since_ms=_since(since) if since is not None else 0,
        places=frozenset(map(place_of, offset or ())),
        force=force,
    )
    settings = Settings.load()
    with saying("reading the dead letters", in_terminal=True) as say:
        found = send_back(settings, asked, apply=yes, on_progress=say)
    if as_json:
        print_json(found.as_json())
    else:
        _show_returns(found)
    if found.failed:
        raise typer.Exit(1)


def _since(text: str) -> int:
    """Parses an age or an RFC 3339 time into milliseconds since 1970."""
    age, instant = _AGE.fullmatch(text), parse_instant(text)
    if age is not None:
        return int((time.time() - int(age[1]) * _SECONDS[age[2]]) * 1000)
    if instant is not None:
        return instant // NS_PER_MS
    raise typer.BadParameter(f"{text!r} is neither an age such as 2h nor an instant such as 2026-03-14T03:00:00Z")


def _show_returns(found: ReplaySummary) -> None:
    if not found.letters:
        OUT.print("no dead letters of the events topic match")
        return
    fates = [fate for fate in ReplayDecision if any(counts[fate] for counts in found.fates.values())]
    rows = [
        (reason, counts.total(), *(counts[fate] for fate in fates))
        for reason, counts in sorted(found.fates.items(), key=lambda item: -item[1].total())
    ]
    title = "Sent back" if found.applied else "Dry run: what would be sent back"
    OUT.print(table(title, ("reason", "letters", *map(str, fates)), rows))
    for fate in fates:
        OUT.print(f"\n[bold]{fate}[/] [dim]{fate.meaning}[/]")
        for each in found.sample[fate]:
            whose = f"{each['tenant']}/{each['session']}" if each["tenant"] else "-"
            said = f"  {each['letter']} from {each['origin']}  {each['reason']}  {whose}  {each['detail']}"
            OUT.print(plain(" ".join(said.split())), soft_wrap=True)
    OUT.print()
    if not found.applied:
        OUT.print(
            f"nothing was sent: --yes sends {found.going:,} of {found.letters:,}" if found.going else "nothing to send"
        )
        return
    told = f"{found.going - found.failed.total():,} sent back. To see their outcomes: `hmx wait`, then `hmx verify`"
    OUT.print(as_typed(told), soft_wrap=True)
    for cause, count in found.failed.items():
        OUT.print(f"[bold red]not acknowledged[/]: {many(count, 'record')}: {plain(cause)}")
