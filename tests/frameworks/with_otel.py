"""A shop's clerk of two frameworks that knows nothing of HMX: OpenInference exports its spans to the service."""

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


def with_langgraph() -> dict[str, Any]:
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent
    from openinference.instrumentation.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=PROVIDER)
    clerk = create_react_agent(ChatOpenAI(model="stub", **MODEL), TOOLS, prompt="You help.", name="clerk")
    for order in ORDERS:
        with using_session(f"langgraph-{order}"):
            clerk.invoke({"messages": [("user", wish(order))]})
    return done()


def done() -> dict[str, Any]:
    PROVIDER.shutdown()
    return {}


play({"agents-sdk": with_agents_sdk, "langgraph": with_langgraph})
