"""Small sessions that both folds find something in: tasks of two kinds, some of which fail, some of which recover."""

import random
from typing import Any, TypeVar

from tests.support.records import START_MS, event

T = TypeVar("T")
_TASKS = {
    "deploy the {} service to staging": ("build_image", "check_namespace", "apply_manifest", "verify_rollout"),
    "rotate the database credentials of {}": ("read_vault", "write_vault", "restart_service"),
}
_SERVICES = ("payments", "search", "billing", "ledger")


def session(number: int, tenant_id: str = "acme") -> list[dict[str, Any]]:
    """Session `number`: the same number gives the same session."""
    dice = random.Random(number)
    wish, tools = dice.choice(sorted(_TASKS.items()))
    service = dice.choice(_SERVICES)
    said: list[tuple[str, dict[str, Any]]] = [("message", {"role": "user", "text": f"Please {wish.format(service)}"})]
    for step, tool in enumerate(tools):
        call = {"tool_name": tool, "arguments": {"service": service}, "call_id": f"{step}"}
        result = {"tool_name": tool, "call_id": f"{step}", "success": True}
        said.append(("tool_call", call))
        if step == 2 and dice.random() < 0.5:
            said.append(("tool_result", {**result, "success": False, "error": f"namespace {service} not found"}))
            said.append(("error", {"error_type": "NotFound", "message": f"namespace {service} not found"}))
            said.append(("tool_call", {**call, "tool_name": "create_namespace", "call_id": "fix"}))
            said.append(("tool_result", {**result, "tool_name": "create_namespace", "call_id": "fix"}))
            said.append(("tool_call", {**call, "call_id": "again"}))
            result = {**result, "call_id": "again"}
        said.append(("tool_result", result))
    said.append(("feedback", {"signal": "positive" if dice.random() < 0.85 else "negative"}))
    name, start = f"session-{number}", START_MS - 86_400_000 + number * 600_000
    return [
        event(name, n, at=start + 1_000 * n, event_type=kind, content=content, tenant_id=tenant_id)
        for n, (kind, content) in enumerate(said)
    ]


def interleaved(sessions: list[list[T]], dice: int | random.Random) -> list[T]:
    """All events, each session in its own order, sessions mixed by these dice or this seed."""
    dice = dice if isinstance(dice, random.Random) else random.Random(dice)
    waiting = [list(reversed(events)) for events in sessions if events]
    mixed = []
    while waiting:
        chosen = dice.choice(waiting)
        mixed.append(chosen.pop())
        if not chosen:
            waiting.remove(chosen)
    return mixed
