"""A process of the pipeline as it is, but with bounds that a run of minutes reaches. Argument: `hmx`'s command.

What happens at a bound is the pipeline's own; only the numbers are lower. They are no settings: a deployment has no
reason to change them.
"""

import sys
from typing import Final

from hmx_pipeline.cli.app import main
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.service import overview, subscriber_queue
from hmx_pipeline.service.hippocortex import usage
from hmx_pipeline.stages import pattern_state, session_releasing
from hmx_pipeline.store import changes, source_cache, tenant_index

SESSIONS: Final = 250
"""Of a partition."""
SEARCHED: Final = 500
"""Episodes of a tenant."""


def lower() -> None:
    session_releasing.SESSIONS_LIVE = SESSIONS  # type: ignore[misc]
    session_releasing.PARTITION_WAITING_BYTES = 2 * MB  # type: ignore[misc]
    session_releasing.PARTITION_SESSION_BYTES = MB // 2  # type: ignore[misc]
    pattern_state.PATTERN_CONTRIBUTIONS = 64  # type: ignore[misc]
    pattern_state.TENANT_CONTRIBUTIONS = 250  # type: ignore[misc]
    changes.PATTERN_SAMPLE, changes.TENANT_SAMPLE, changes.SEARCHED = 128, 500, SEARCHED  # type: ignore[misc]
    source_cache.SOURCES_BYTES = 8 * MB  # type: ignore[misc]
    tenant_index.TenantIndexes.__init__.__defaults__ = (8 * MB,)  # type: ignore[misc]
    subscriber_queue.ALL_BYTES, overview.TABLES_BYTES = 4 * MB, 2 * MB  # type: ignore[misc]
    usage.FIGURES = 5_000  # type: ignore[misc]


if __name__ == "__main__":
    lower()
    sys.argv[0] = "hmx"
    main()
