"""Operators' decisions that a route appends to the log: what keeps one out of it becomes a problem.

Enters: what a use case raises. Raises ProblemError.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hmx_pipeline.kafka.control_producer import NotInLogError
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.service.problems import ProblemError, ProblemKind, unavailable
from hmx_pipeline.settings import SettingsError


@contextmanager
def deciding() -> Iterator[None]:
    """Tells a missing control key, topics that do not answer, and records that were not appended."""
    try:
        yield
    except SettingsError as error:
        raise ProblemError(ProblemKind.NOT_OFFERED, str(error)) from None
    except (TopicsError, NotInLogError) as error:
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, str(error)) from None
