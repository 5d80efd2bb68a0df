"""After the run: the log grows to twice the partitions under fire, and the new generation is judged like the old one.

Enters: a site at rest. The copy is killed again and again, and once the broker that leads a partition. Leaves: what the
new generation lost, doubled or holds otherwise than its own log says, and where it differs from the old one.
Raises HarnessError, LackingError.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES
from tests.harness.fleet import HarnessError
from tests.harness.site import Site
from tests.support.pipeline import environment
from tests.support.topics import counts, values
from tests.verifier.check import compare
from tests.verifier.log import read
from tests.verifier.rules import Rules

PREFIX = "g2."
KILLS = 3
TRIES = 20
REST_S = 300.0
WHOLE, AGAIN = 0, 2
"""Exit codes of the copy."""


def grow(site: Site, dice: random.Random) -> list[str]:
    """What is wrong with the new generation; and all of the old one's processes are gone."""
    _copy(site, dice)
    for name in [name for name in site.fleet.all if name.startswith(("worker", "materialiser", "service"))]:
        site.fleet.remove(name)
    site.start_generation(PREFIX)
    grown = replace(site.settings, topic_prefix=PREFIX)
    wait_for_all(grown, REST_S)
    snapshot = read(grown.kafka_bootstrap, PREFIX, grown.redis_url)
    report = compare(snapshot, Rules(grown.control_key))
    return [*map(str, report.faults), *_differences(site.settings, grown)]


def _copy(site: Site, dice: random.Random) -> None:
    for number in range(TRIES):
        process = _started(site)
        if number < KILLS:
            time.sleep(dice.uniform(1.0, 4.0))
            process.kill()
            if number == 1:
                site.fleet.kill(site.leader(dice.randrange(site.partitions)))
        code = process.wait()
        if code == WHOLE:
            return
        time.sleep(0.0 if code == AGAIN else 1.0)
    raise HarnessError(f"the copy is not whole after {TRIES} runs; see {site.logs / 'grow.log'}")


def _started(site: Site) -> "subprocess.Popen[bytes]":
    words = ("topics", "grow", "--partitions", str(2 * site.partitions), "--to", PREFIX, "--yes")
    with (site.logs / "grow.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hmx_pipeline.cli", *words],
            env={**os.environ, **environment(site.settings)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _differences(old: Settings, new: Settings) -> list[str]:
    """Which events of a session are released, and what becomes of all other records of agents. When and in which order
    is the verifier's matter: where a broker's clock was shifted, another partition's clock says otherwise."""
    before, after = _released(old), _released(new)
    sessions = sorted({*before, *after})
    found = [f"grown: other events of {key} are released" for key in sessions if before[key] != after[key]]
    told = [_outcomes(settings) for settings in (old, new)]
    return found + ([] if told[0] == told[1] else [f"grown: outcomes {told[0]} became {told[1]}"])


def _released(settings: Settings) -> defaultdict[tuple[str, str], Counter[str]]:
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for episode in values(settings, EPISODES):
        found[episode["metadata"]["hmx"]["tenant_id"], episode["sessionId"]][episode["id"]] += 1
    return found


def _outcomes(settings: Settings) -> Counter[str]:
    """But for control records and what was rerouted."""
    found: Counter[str] = Counter()
    for name, count in counts(settings).items():
        if name.startswith(("rejected", "duplicate", "released")):
            found[name.removesuffix("_late")] += count
    return found
