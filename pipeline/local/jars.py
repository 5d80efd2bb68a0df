"""Apache Kafka's jars, and any other: fetched once, held to pinned hashes, kept in the user's cache folder.

Enters: `jars.lock` beside this module, one `group:artifact:version sha256` a line. Leaves: a class path of files, or
one file, whose bytes are the pinned ones. Fails with StackError when a jar can't be fetched or is not the pinned one.
Run as a module it writes the lock anew.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pipeline.local.process import StackError
from pipeline.local.state import make_folder

KAFKA_VERSION = "4.1.0"
# "!": the logging library's own list of versions must not decide over Kafka's.
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


def pinned(lock: Path = LOCK) -> list[Jar]:
    return [Jar(*re.split("[: ]", line)) for line in lock.read_text().splitlines()]


def classpath(progress: Callable[[str], None]) -> str:
    """The class path of a Kafka broker; says to `progress` what is fetched when something is."""
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    make_folder(folder, "XDG_CACHE_HOME")
    jars = pinned()
    missing = [jar for jar in jars if not (folder / jar.filename).exists()]
    if missing:
        progress(f"fetching Apache Kafka {KAFKA_VERSION}: {len(missing)} jars, this once")
        for done, jar in enumerate(_fetch(missing, folder), start=1):
            progress(f"fetching Apache Kafka {KAFKA_VERSION}: {done}/{len(missing)} {jar.filename}")
    return os.pathsep.join(str(folder / jar.filename) for jar in jars)


def fetched(jar: Jar) -> Path:
    """One that is not Kafka's."""
    folder = cache_folder()
    make_folder(folder, "XDG_CACHE_HOME")
    if not (folder / jar.filename).exists():
        list(_fetch([jar], folder))
    return folder / jar.filename


def _fetch(jars: list[Jar], folder: Path) -> Iterator[Jar]:
    # Fetched aside and renamed into place: an interrupted download never looks like a jar.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as aside, ThreadPoolExecutor(8) as pool:
        for jar, path in zip(jars, pool.map(lambda jar: _download(jar, Path(aside)), jars), strict=True):
            if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
                raise StackError(f"{jar.filename} is not the file that is pinned here; nothing of it was kept")
            path.replace(folder / jar.filename)
            yield jar


def _download(jar: Jar, aside: Path) -> Path:
    from jgo.maven import MavenContext
    from requests import RequestException

    context = MavenContext(repo_cache=aside, timeout=30)
    try:
        path: Path = context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    except (RequestException, RuntimeError) as error:
        raise StackError(
            f"could not fetch {jar.filename} from the Maven repository ({type(error).__name__}). Connect to the "
            f"network and try again, or copy a full {cache_folder()} here. Where HMX_KAFKA_BOOTSTRAP names a running "
            "Kafka, none is needed for one."
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
