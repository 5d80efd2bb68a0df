"""Errors of the routes that append an operator's decision to the log, as problems of the HTTP API.

Enters: SettingsError (no control key) or TopicsError, from the route's block. Leaves: ProblemError, which says that the
route is not offered, or that Kafka is unavailable.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.service.problems import ProblemError, ProblemKind, unavailable
from hmx_pipeline.settings import SettingsError


@contextmanager
def deciding() -> Iterator[None]:
    """Tells a missing control key, and topics that do not answer or take the event."""
    try:
        yield
    except SettingsError as error:
        raise ProblemError(ProblemKind.NOT_OFFERED, str(error)) from None
    except TopicsError as error:
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, str(error)) from None
