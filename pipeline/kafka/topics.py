"""Topics as code: reads topics/*.yaml, reads the cluster, applies a plan.

Enters: a folder of topic files, an AdminClient. Leaves: `TopicSpec`s, a `ClusterState`, a cluster that looks like the files.
Fails:
    TopicsError
    ├── TopicFileError      a file is missing, misspelt, or names a topic that has no file
    ├── KafkaUnreachable    no broker answers
    ├── KafkaRefused        a broker answers with an error, or a change does not become visible
    ├── PlanRefused         the plan holds a refusal; nothing was applied
    └── UnfitTopic          a stage's input is missing or does not carry the broker's append time
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import yaml
from confluent_kafka import ConsumerGroupTopicPartitions as _  # noqa: F401
