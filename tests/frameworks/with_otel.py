"""A shop's clerk of three frameworks that knows nothing of HMX: its instrumentation exports spans to the service."""

import json
import os
from typing import Any

from openinference.instrumentation import using_session
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from shop import ORDERS, play, result, wish

PROVIDER = TracerProvider(resource=Resource({"service.name": "clerk"}))
HEADERS = {"X-HMX-Tenant": os.environ["HMX_TENANT"]}
PROVIDER.add_span_processor(
    BatchSpanProcessor(OTLPSpanExporter(os.environ["HMX_SERVICE_URL"] + "/v1/traces", headers=HEADERS))
)
MODEL = {"base_url": os.environ["HMX_MODEL"], "api_key": "none"}


def get_order(id: str) -> str:  # noqa: A002
    """Read an order."""
    return json.dumps(result(id))


def check_policy(id: str) -> str:  # noqa: A002
    """Say whether it may be refunded."""
    return json.dumps(result(id))


def refund(id: str) -> str:  # noqa: A002
    """Refund it."""
    return json.dumps(result(id))


TOOLS = [get_order, check_policy, refund]


def with_agents_sdk() -> dict[str, Any]:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    OpenAIAgentsInstrumentor().instrument(tracer_provider=PROVIDER)
    model = OpenAIChatCompletionsModel("stub", AsyncOpenAI(**MODEL))
    clerk = Agent(name="clerk", instructions="You help.", model=model, tools=list(map(function_tool, TOOLS)))
    for order in ORDERS:
        with using_session(f"agents-sdk-{order}"):
            Runner.run_sync(clerk, wish(order))
    return done()


def with_langgraph(prefix: str) -> dict[str, Any]:
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent

    clerk = create_react_agent(ChatOpenAI(model="stub", **MODEL), TOOLS, prompt="You help.", name="clerk")
    for order in ORDERS:
        session = f"{prefix}-{order}"
        with using_session(session):  # which OpenInference knows; OpenLLMetry takes the metadata
            clerk.invoke({"messages": [("user", wish(order))]}, {"metadata": {"session_id": session}})
    return done()


def with_openinference() -> dict[str, Any]:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=PROVIDER)
    return with_langgraph("langgraph")


def with_openllmetry() -> dict[str, Any]:
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=PROVIDER)
    return with_langgraph("openllmetry")


def with_pydantic_ai() -> dict[str, Any]:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent, InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all(InstrumentationSettings(tracer_provider=PROVIDER))
    model = OpenAIChatModel("stub", provider=OpenAIProvider(openai_client=AsyncOpenAI(**MODEL)))
    clerk = Agent(model, name="clerk", instructions="You help.", tools=TOOLS)
    for order in ORDERS:
        clerk.run_sync(wish(order), conversation_id=f"pydantic-ai-{order}")
    return done()


def done() -> dict[str, Any]:
    PROVIDER.shutdown()
    return {}


play({
    "agents-sdk": with_agents_sdk, "langgraph": with_openinference, "openllmetry": with_openllmetry,
    "pydantic-ai": with_pydantic_ai,
})  # fmt: skip
