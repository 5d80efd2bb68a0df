"""What tests against servers ask for beside Kafka and Redis."""

from collections.abc import Iterator

import httpx
import pytest

from hmx_pipeline.settings import Settings
from tests.support.service import serving


@pytest.fixture(scope="module")
def service(settings: Settings) -> Iterator[httpx.Client]:
    with serving(settings) as client:
        yield client
