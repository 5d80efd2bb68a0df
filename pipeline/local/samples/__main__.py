"""The samples as NDJSON: `python -m pipeline.local.samples > sessions.ndjson`."""

import sys

from pipeline.local.samples import sample_events

sys.stdout.buffer.write(b"".join(value + b"\n" for value in sample_events()))
