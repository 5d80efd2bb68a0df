"""`make secrets`: how many secrets intake finds and how often it errs, beside detect-secrets and credsweeper."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from hmx_pipeline.intake.decode import Accepted, decode
from tests.secrets.corpus import Sample, lookalikes, secrets, with_tools
from tests.support.events import encoded, event

RECALL = 0.97
FALSE_ALARMS = 0.01
_CREDSWEEPER = """
import sys, types
sys.path.append({tools!r})
stub = types.ModuleType("PySquashfsImage")
stub.__getattr__ = lambda name: object
sys.modules["PySquashfsImage"] = stub
from credsweeper.__main__ import main
sys.exit(main())
"""
"""What it opens squashed file systems with has another licence, and isn't installed."""


def found_by_intake(sample: Sample) -> bool:
    outcome = decode(encoded(event(content=sample.content)))
    assert isinstance(outcome, Accepted), outcome
    if not sample.secret:
        return bool(outcome.redacted)
    return sample.secret not in json.dumps(outcome.fields["content"], ensure_ascii=False)


def found_by_detect_secrets(samples: list[Sample]) -> list[bool]:
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import default_settings

    with tempfile.TemporaryDirectory() as folder, default_settings():
        return [
            any(_same(sample, secret.secret_value or "") for secret in scan_file(str(file)))
            for sample, file in _files(samples, Path(folder))
        ]


def found_by_credsweeper(samples: list[Sample], tools: Path) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        files = _files(samples, Path(folder))
        report = Path(folder) / "report.json"
        command = ["--path", folder, "--save-json", str(report), "--jobs", "1", "--log", "error"]
        script = _CREDSWEEPER.format(tools=str(tools))
        subprocess.run([sys.executable, "-c", script, *command], check=True, stdout=subprocess.DEVNULL)
        said: dict[str, list[str]] = {}
        for found in json.loads(report.read_text()):
            for line in found["line_data_list"]:
                said.setdefault(line["path"], []).append(line["value"] or "")
        return [any(_same(sample, value) for value in said.get(str(file), ())) for sample, file in files]


def confirmed(samples: list[Sample], tools: Path) -> list[Sample]:
    """Without what a pattern made that its own tool, which looks closer, takes for no secret."""
    by_credsweeper, by_detect_secrets = found_by_credsweeper(samples, tools), found_by_detect_secrets(samples)
    return [
        sample
        for sample, one, other in zip(samples, by_credsweeper, by_detect_secrets, strict=True)
        if (one or not sample.kind.startswith("credsweeper "))
        and (other or not sample.kind.startswith("detect-secrets "))
    ]


def _files(samples: list[Sample], folder: Path) -> list[tuple[Sample, Path]]:
    files = [(sample, folder / f"sample{at:05}.txt") for at, sample in enumerate(samples)]
    for sample, file in files:
        file.write_text(sample.text + "\n")
    return files


def _same(sample: Sample, value: str) -> bool:
    """Whether a finding is of the sample's secret: in a lookalike each is wrong."""
    return not sample.secret or (bool(value) and (value in sample.secret or sample.secret in value))


def _share(found: list[bool]) -> str:
    return f"{sum(found):>5} of {len(found):<5} {sum(found) / max(len(found), 1):.3f}"


def main() -> int:
    tools = Path(sys.argv[1]).resolve()
    with_tools(tools)
    wanted, innocent = secrets(tools), lookalikes(tools)
    wanted = confirmed(wanted, tools)
    finders: dict[str, Callable[[list[Sample]], list[bool]]] = {
        "intake": lambda samples: list(map(found_by_intake, samples)),
        "detect-secrets": found_by_detect_secrets,
        "credsweeper": lambda samples: found_by_credsweeper(samples, tools),
    }
    if os.environ.get("ONLY"):
        finders = {name: find for name, find in finders.items() if name == os.environ["ONLY"]}
    print(f"{len(wanted)} secrets, {len(innocent)} lookalikes; a third of each is held out\n")
    passed = True
    for part, held in (("open", False), ("held out", True)):
        some, none = ([s for s in all_ if s.held_out is held] for all_ in (wanted, innocent))
        for name, find in finders.items():
            recall, alarms = find(some), find(none)
            print(f"{part:<9} {name:<15} found {_share(recall)}   false alarms {_share(alarms)}")
            if name == "intake":
                passed &= sum(recall) >= RECALL * len(recall) and sum(alarms) <= FALSE_ALARMS * len(alarms)
                if os.environ.get("SHOW") == part:
                    _show(some, recall, missed=True)
                    _show(none, alarms, missed=False)
    _lacks(wanted)
    print(f"\nbars: found at least {RECALL}, false alarms at most {FALSE_ALARMS}: {'kept' if passed else 'NOT KEPT'}")
    return not passed


def _lacks(samples: list[Sample]) -> None:
    """The kinds that another tool knows and of which intake finds less than half."""
    known: dict[str, list[bool]] = {}
    for sample in samples:
        known.setdefault(sample.kind, []).append(found_by_intake(sample))
    lacking = [kind for kind, found in known.items() if 2 * sum(found) < len(found)]
    print(f"\nof {len(known)} kinds and forms, found in less than half: {', '.join(lacking) or 'none'}")


def _show(samples: list[Sample], found: list[bool], *, missed: bool) -> None:
    wrong = [sample for sample, yes in zip(samples, found, strict=True) if yes is not missed]
    for kind, count in Counter(sample.kind for sample in wrong).most_common():
        print(f"    {count:>3} {kind}: {next(s.text for s in wrong if s.kind == kind)[:160]!r}")


if __name__ == "__main__":
    sys.exit(main())
