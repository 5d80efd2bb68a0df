"""`make scale`: what many tenants and much memory cost, from samples of a few.

Runs the pipeline on a stack of its own three times: with few tenants, with ten times as many, and with more events of
these. Shows bytes and CPU an event and a memory by component, what TENANTS tenants with MEMORIES memories take, and the
bill for 1, 10 and 100 billion events a month. Leaves build/scale.json. A report: fails only where a process ends.
"""

import argparse
import os
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

import orjson
from rich.console import Console
from rich.table import Table

from tests.bench import workload
from tests.bench.kit import Bench
from tests.bench.report import machine
from tests.scale.extrapolate import Bill, Costs, Prices, bill, costs
from tests.scale.samples import Sample, taken

OUT: Final = Console(highlight=False, width=80)
BILLIONS: Final = (1, 10, 100)


def main() -> None:
    asked = _asked()
    shapes = ((asked.few, asked.events), (asked.few * 10, asked.events), (asked.few * 10, asked.events * 3))
    samples = list[Sample]()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        bench = Bench(Path(folder), asked.events, 0, 1, lambda: None, closing)
        for tenants, events in shapes:
            OUT.print(f"{events:,} events of {tenants:,} tenants …")
            samples.append(taken(bench, tenants, events))
    found = costs(*samples)
    prices = Prices(
        asked.core, asked.memory_gb, asked.disk_gb, asked.peak, asked.replicas, asked.packs_event, asked.kept_days
    )
    bills = {n: bill(found, n * 1e9, asked.memories, asked.tenants, prices) for n in BILLIONS}
    about = {"machine": machine(), "workload": workload.source(), "asked": vars(asked)}
    told = {**about, "samples": [asdict(one) for one in samples], "costs": asdict(found)}
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_bytes(
        orjson.dumps(
            {**told, "bills": {str(n): asdict(one) for n, one in bills.items()}},
            default=str,
            option=orjson.OPT_INDENT_2,
        )
    )
    _show(found, samples[-1], bills, asked, prices)


def _show(found: Costs, last: Sample, bills: dict[int, Bill], asked: argparse.Namespace, prices: Prices) -> None:
    table = Table("component", "CPU an event", "CPU a pack", title=f"{workload.source()}: what one costs")
    for name in {**found.event_us, **found.pack_ms}:
        event, pack = found.event_us.get(name), found.pack_ms.get(name)
        table.add_row(name, f"{event:.0f} µs" if event else "", f"{pack:.1f} ms" if pack else "")
    OUT.print(table)
    table = Table("bytes", "", title=f"{found.memories_event:.2f} memories an event")
    for topic, size in found.topic_event.items():
        table.add_row(f"{topic}, an event", f"{size:.0f}")
    table.add_row("Redis, a memory", f"{found.redis_memory:,.0f}")
    table.add_row("Redis, a tenant besides", f"{found.redis_tenant:,.0f}")
    for name, size in last.resident.items():
        table.add_row(f"{name}, resident after {last.events:,} events", f"{size / 1e6:,.0f} MB")
    OUT.print(table)
    OUT.print(f"Ten times the tenants: {found.tenants_cost:.2f} × the CPU an event.")
    held = asked.memories * found.redis_memory + asked.tenants * found.redis_tenant
    OUT.print(f"{asked.tenants:,} tenants with {asked.memories:,.0f} memories: {held / 1e9:,.0f} GB in Redis, once.")
    table = Table("events a month", "cores", "Redis GB", "disk GB", "a month", title=_assumed(prices))
    for billions, one in bills.items():
        cores = f"{sum(one.cores.values()):,.1f}"
        table.add_row(f"{billions} billion", cores, f"{one.redis_gb:,.0f}", f"{one.disk_gb:,.0f}", f"{one.total:,.0f}")
    OUT.print(table)


def _assumed(prices: Prices) -> str:
    return (
        f"{prices.peak:g} × the mean at peak, {prices.packs_event:g} packs an event, {prices.kept_days} days of topics,"
        f" {prices.replicas} replicas; {prices.core:g} a core, {prices.memory_gb:g} a GB of memory,"
        f" {prices.disk_gb:g} a GB of disk, a month"
    )


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--few", type=int, default=20, help="tenants of the first sample; the others have ten times")
    parser.add_argument("--events", type=int, default=int(os.environ.get("EVENTS") or 10_000))
    parser.add_argument("--tenants", type=int, default=int(os.environ.get("TENANTS") or 10_000))
    parser.add_argument(
        "--memories", type=float, default=float(os.environ.get("MEMORIES") or 1e8), help="of all tenants"
    )
    parser.add_argument("--packs-event", type=float, default=0.02, help="packs asked for an event")
    parser.add_argument("--kept-days", type=int, default=30)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--peak", type=float, default=3.0, help="times the mean load that must be there")
    parser.add_argument("--core", type=float, default=25.0, help="price of a core for a month, in any currency")
    parser.add_argument("--memory-gb", type=float, default=4.0)
    parser.add_argument("--disk-gb", type=float, default=0.1)
    parser.add_argument("--out", type=Path, default=Path("build/scale.json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
