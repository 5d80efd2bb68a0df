"""`hmx backup`, `hmx restore`: all topics of a deployment as a folder of files, and back.

Enters: a folder, and the Kafka that the settings name. Leaves: a folder of records with checksums, or topics filled
from one; how many topics and records, as a line or JSON.
"""

from pathlib import Path
from typing import Annotated

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, fail, many, plain, print_json, progress_bar
from hmx_pipeline.settings import Settings

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the backup.")]


def backup(folder: Folder, as_json: AsJson = False) -> None:
    """Writes all topics into a folder, while no worker runs.

    It holds records, their times, headers and offsets, with checksums. Services may run. Redis is not in it, because it
    is filled from the topics. Keep HMX_CONTROL_KEY, the file of HMX_API_KEYS and the folder of HMX_ARCHIVE as well.

    Exit code: 0 written, 1 not. Then nothing in the folder is a backup.

    Example: hmx backup /backups/2026-03-14
    """
    from hmx_pipeline.audit.backup import BackupError, back_up

    try:
        with progress_bar() as on_progress:
            manifest = back_up(Settings.load(), folder, on_progress)
    except BackupError as error:
        fail(str(error))
    if as_json:
        print_json({"topics": len(manifest.topics), "records": manifest.records})
    else:
        OUT.print(f"written: {many(manifest.records, 'record')} of {len(manifest.topics)} topics", soft_wrap=True)


def restore(folder: Folder, as_json: AsJson = False) -> None:
    """Fills an empty Kafka from a backup, each record at the offset that it had.

    Topics are created as needed. The settings must be those of the deployment that was backed up, HMX_CONTROL_KEY
    above all. Repeat what was erased after the backup (`hmx erase`) before the services start: only erasures that the
    backup holds are honoured. Start the workers afterwards: they continue where those of the backup stopped.

    Exit code: 0 restored, 1 not. If it had begun, delete the topics before you repeat it.

    Example: hmx restore /backups/2026-03-14
    """
    from hmx_pipeline.audit.backup import BackupError
    from hmx_pipeline.audit.restore import restore as restored
    from hmx_pipeline.store.archive import ArchiveError

    try:
        with progress_bar() as on_progress:
            manifest, kept = restored(Settings.load(), folder, on_progress)
    except (BackupError, ArchiveError) as error:
        fail(str(error))
    if as_json:
        print_json({"topics": len(manifest.topics), "records": manifest.records, "without_retention": kept})
        return
    OUT.print(f"restored: {many(manifest.records, 'record')} of {len(manifest.topics)} topics", soft_wrap=True)
    ERR.print("[yellow]note[/]: repeat what was erased after this backup, before the services start: hmx erase")
    if kept:
        ERR.print(
            f"[yellow]note[/]: retention is off for {plain(', '.join(kept))}: it would delete old records at once. When"
            " memory is filled: hmx topics apply --allow-shrink",
            soft_wrap=True,
        )
