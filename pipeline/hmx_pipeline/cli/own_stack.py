"""A stack of a command's own: Kafka, Redis and the pipeline on free ports, stopped when the command ends.

Enters: a folder, and whether the stack is to stay. Leaves: the settings of the running stack; variables that name other
servers are taken out of the environment. A stack that fails ends the process with one line.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hmx_pipeline.cli.console import fail, saying
from hmx_pipeline.cli.stack import end_as_by_interrupt
from hmx_pipeline.local import stack as local
from hmx_pipeline.local.process import StackError
from hmx_pipeline.settings import Settings

_ELSEWHERE: Final = (
    "HMX_KAFKA_BOOTSTRAP",
    "HMX_REDIS_URL",
    "HMX_REDIS_URL_FILE",
    "HMX_SERVICE_URL",
    "HMX_TOPIC_PREFIX",
    "HMX_CONTROL_KEY",
    "HMX_CONTROL_KEY_FILE",
)
"""Settings that would send a command's events to other servers, besides those that secure the way there."""
_STARTING: Final = "starting Kafka, Redis and the pipeline"


@contextmanager
def own_stack(folder: Path, keep: bool) -> Iterator[Settings]:
    """Starts an empty stack and stops it, also after Ctrl-C. With `keep` it lies in the folder, and stays up if nothing
    failed."""
    for name in _ELSEWHERE:
        os.environ.pop(name, None)
    for name in local.settings_elsewhere(os.environ):  # those depend on the ones above
        os.environ.pop(name, None)
    end_as_by_interrupt()
    try:
        with _lasting(folder) if keep else _temporary() as settings:
            yield settings
    except local.AlreadyUpError as error:
        fail(f"{error}: stop it with `HMX_STATE={folder} hmx down`")
    except StackError as error:
        fail(f"{error}\n`--keep` keeps the logs in {folder}/logs.")


@contextmanager
def _lasting(folder: Path) -> Iterator[Settings]:
    with saying(_STARTING) as say:
        local.up(folder, fresh=True, progress=say)
    try:
        yield Settings.load({"HMX_STATE": str(folder)})
    except BaseException:
        local.down(folder)
        raise


@contextmanager
def _temporary() -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="hmx-") as folder:
        with saying(_STARTING) as say:
            stack = local.Stack(Path(folder), pipeline=True, keep=False, progress=say)
            stack.start()
        try:
            yield Settings.load({"HMX_STATE": folder})
        finally:
            with saying("stopping"):
                stack.stop()
