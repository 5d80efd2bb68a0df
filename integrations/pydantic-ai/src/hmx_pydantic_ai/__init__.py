"""HMX memory for pydantic-ai: a capability that recalls and records, and a recorder of message histories.

    agent = Agent("openai:gpt-5", capabilities=[HmxCapability()])

The service being away never fails a run: memory is then empty, and events wait (hmx_client.agents).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, SkipToolExecution
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import ToolDefinition

from hmx_client import AgentMemory
from hmx_client.agents import key_of, text_of

__all__ = ["HmxCapability", "record"]
_NOT_RUN: Final = (ApprovalRequired, CallDeferred, SkipToolExecution)


@dataclass
class HmxCapability(AbstractCapability[Any]):
    """Puts memory of the prompt, and of a failed tool, into the instructions; tells memory what the run does.

    A session is a conversation: `session`, else the conversation id of the run.
    """

    memory: AgentMemory = field(default_factory=AgentMemory.of)
    session: str = ""

    def get_instructions(self) -> Callable[[RunContext[Any]], Any]:
        return self._recalled

    async def _recalled(self, ctx: RunContext[Any]) -> str | None:
        last = ctx.messages[-1].parts if ctx.messages else ()
        failed = [part for part in last if isinstance(part, ToolReturnPart) and part.outcome in ("failed", "retried")]
        asked = [_prompted(ctx.prompt), *(text_of(part.content)[:500] for part in failed)]
        return await self.memory.arecall("\n".join(asked), self._of(ctx), ctx.run_id or "") or None

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        self._record(ctx, request_context.messages)
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        self._record(ctx, [response])
        return response

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: Any,
        handler: Callable[[Any], Any],
    ) -> Any:
        """Tells how a tool ended, and how long it took."""
        since, key = time.monotonic(), key_of(ctx.run_id, call.tool_call_id)

        def told(result: object, ok: bool) -> None:
            ms = 1000 * (time.monotonic() - since)
            self.memory.returned(self._of(ctx), call.tool_call_id, call.tool_name, result, key, ok=ok, ms=ms)

        try:
            result = await handler(args)
        except _NOT_RUN:
            raise
        except Exception as error:
            told(str(error), False)
            raise
        told(getattr(result, "return_value", result), True)
        return result

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        self._record(ctx, result.new_messages())
        return result

    async def on_run_error(self, ctx: RunContext[Any], *, error: BaseException) -> AgentRunResult[Any]:
        self.memory.failed(self._of(ctx), error, key_of(ctx.run_id, "error"))
        raise error

    def _of(self, ctx: RunContext[Any]) -> str:
        return self.session or ctx.conversation_id or ""

    def _record(self, ctx: RunContext[Any], messages: Iterable[ModelMessage]) -> None:
        own = (message for message in messages if message.run_id in (None, ctx.run_id))
        record(self.memory, own, self._of(ctx), ctx.run_id or "")


def record(memory: AgentMemory, messages: Iterable[ModelMessage], session: str = "", run: str = "") -> None:
    """Tells memory a history, such as `result.all_messages()`. What was told before, live too, adds nothing."""
    for message in messages:
        whose, of = session or message.conversation_id or "", message.run_id or run
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    memory.said(whose, "user", _prompted(part.content), key_of(of, part.timestamp, "user"))
                elif isinstance(part, ToolReturnPart):
                    key, ok = key_of(of, part.tool_call_id), part.outcome == "success"
                    memory.returned(whose, part.tool_call_id, part.tool_name, part.content, key, ok=ok)
        else:
            for place, said in enumerate(message.parts):
                if isinstance(said, TextPart):
                    memory.said(whose, "assistant", said.content, key_of(of, message.timestamp, place))
                elif isinstance(said, ToolCallPart):
                    key = key_of(of, said.tool_call_id)
                    memory.called(whose, said.tool_call_id, said.tool_name, said.args, key)


def _prompted(content: Any) -> str:
    """Returns the text of a prompt; pictures and files have none."""
    parts = [content] if isinstance(content, str) else content or ()
    texts = (part if isinstance(part, str) else getattr(part, "content", None) for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))
