"""What the agents of the programs beside this file do, whatever their framework: a shop's clerk refunds orders.

Each program is `python with_NAME.py SCENARIO`, in an environment that has the framework. HMX_SERVICE_URL names the
service. It prints what its model was shown and what came of it, as JSON.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

STEPS = ("get_order", "check_policy", "refund")
RUNS = 6
FAILURE = "the account is closed"
ORDERS = [f"B{number}" for number in range(RUNS)]


def wish(order: str) -> str:
    return f"Refund order {order}"


def answer(order: str) -> str:
    return f"Refunded {order}."


def result(order: str) -> dict[str, Any]:
    return {"order": order, "step": "done"}


def calls(order: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """The id, tool and arguments of each call that the model asks for."""
    for number, name in enumerate(STEPS):
        yield f"call_{order}_{number}", name, {"id": order}


def play(scenarios: dict[str, Callable[[], dict[str, Any]]]) -> None:
    print(json.dumps(scenarios[sys.argv[1]]()))
