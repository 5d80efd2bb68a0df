"""`hmx dlq`: what was rejected, by reason."""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Annotated

import typer

from pipeline.audit.dead_letters import Letters, by_reason, readable
from pipeline.audit.verify import Row, row_of
from pipeline.cli.console import OUT, plain, print_json, table
from pipeline.contracts.instants import format_ms
from pipeline.kafka.clients import Cluster, Watermarks, read_partition
from pipeline.kafka.reach import existing_topics
from pipeline.settings import Settings
from pipeline.topology import EVENTS_DLQ, EVIDENCE_DLQ


def register(app: typer.Typer) -> None:
    app.command()(dlq)


def dlq(
    limit: Annotated[
        int | None, typer.Option(min=1, help="Look at so many offsets of each partition only, the newest.")
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show how each example begins; it may hold secrets.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Shows what was rejected: reasons, counts, one example each, and what to do about it.

    Exit code: 0 shown, also where there are no dead letters. Example: hmx dlq --limit 1000
    """
    settings = Settings.load()
    found = [letters for topic in (EVENTS_DLQ, EVIDENCE_DLQ) for letters in _read(settings, topic, limit)]
    if as_json:
        total = sum(letters.count for letters in found)
        print_json({"dead_letters": total, "reasons": [letters.as_json(show_values) for letters in found]})
    else:
        _show(found, show_values)


def _read(settings: Settings, topic: str, limit: int | None) -> list[Letters]:
    partitions = existing_topics(settings, topic)[topic]
    name = settings.topic_prefix + topic
    with closing(Cluster(settings.require_kafka())) as cluster:
        parts = (_rows(cluster, name, partition, limit) for partition in range(partitions))
        return by_reason(topic, chain.from_iterable(parts))


def _rows(cluster: Cluster, name: str, partition: int, limit: int | None) -> Iterator[Row]:
    low, high = cluster.watermarks(name, partition)
    start = low if limit is None else max(low, high - limit)
    return map(row_of, read_partition(cluster.bootstrap, name, partition, Watermarks(start, high)))


def _show(found: list[Letters], show_values: bool) -> None:
    if not found:
        OUT.print("no dead letters")
        return
    for topic in dict.fromkeys(letters.topic for letters in found):
        ours = [letters for letters in found if letters.topic == topic]
        rows = [(plain(letters.reason), letters.step, letters.count) for letters in ours]
        OUT.print(table(topic, ("reason", "step", "records"), rows))
        for letters in ours:
            _show_example(letters, show_values)
        OUT.print()


def _show_example(letters: Letters, show_values: bool) -> None:
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
