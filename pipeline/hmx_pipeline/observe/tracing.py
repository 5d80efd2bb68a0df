"""OpenTelemetry tracing, enabled by HMX_OTLP_ENDPOINT: one span per step and producer's trace.

Enters: a step's name, the traceparents of its records, and when it began (ns). Leaves: spans; no tracer if no endpoint
is set. Spans are sent in the background by OTLP over HTTP; if the collector is down, spans are dropped. Raises
SettingsError if the packages of the extra `otel` are missing.
"""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final

from hmx_pipeline.settings import Settings, SettingsError

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

MOST: Final = 1_000
"""Traces per batch that get a span."""


class Spans:
    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def took(self, step: str, traces: Iterable[bytes | None], began_ns: int, **attributes: str) -> None:
        """Records one span per trace, from `began_ns` (since 1970) until now. `_` in attribute names becomes `.`."""
        from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

        said = {name.replace("_", "."): value for name, value in attributes.items()}
        for trace in islice(dict.fromkeys(filter(None, traces)), MOST):
            _, trace_id, span_id, flags = trace.split(b"-")[:4]
            caller = SpanContext(
                int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
            )
            context = set_span_in_context(NonRecordingSpan(caller))
            self._tracer.start_span(step, context, SpanKind.CONSUMER, said, start_time=began_ns).end()


def spans(settings: Settings, process: str) -> Spans | None:
    """Returns a tracer; None if no endpoint is set."""
    if not settings.otlp_endpoint:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise SettingsError(
            "HMX_OTLP_ENDPOINT needs the extra `otel`: install `hmx-pipeline[otel]`, or unset it"
        ) from error
    provider = TracerProvider(resource=Resource.create({"service.name": f"hmx-{process}"}))
    exporter = OTLPSpanExporter(f"{settings.otlp_endpoint.rstrip('/')}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Spans(provider.get_tracer("hmx"))
