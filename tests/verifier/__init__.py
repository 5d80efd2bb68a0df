"""The independent verifier: reads what a pipeline has written and compares it with a plain reference of the laws.

It shares no code with the stages, ordering, worker, store and Kafka rooms: topics are read with a consumer of its own,
Redis by its documented layout, and what must have come out is computed one record after the other, in one thread.
`python -m tests.verifier` is the command; `check` is all that another test needs.
"""

from tests.verifier.check import check, compare
from tests.verifier.faults import Fault, Kind, Report
from tests.verifier.log import Snapshot, read
from tests.verifier.rules import Rules

__all__ = ["Fault", "Kind", "Report", "Rules", "Snapshot", "check", "compare", "read"]
