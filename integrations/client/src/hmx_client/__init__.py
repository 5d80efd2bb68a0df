"""Client of the HMX memory service: appends events, asks for packs, reads and corrects what is known.

    with Client("http://127.0.0.1:8080", tenant="acme") as memory:
        appended = memory.append(message("my-session", 0, "The registry moved to registry.internal"))
        print(memory.pack("Where is the registry?", after=appended.after).text)

`AsyncClient` has the same methods as coroutines. All raise HmxError. `AgentMemory` is for adapters of agent
frameworks: it recalls, tells what an agent does, and never raises.
"""

from hmx_client.agents import AgentMemory
from hmx_client.calls import HmxError
from hmx_client.clients import AsyncClient, Client
from hmx_client.models import Appended, Entry, Pack, Page, Rejected, message

__all__ = [
    "AgentMemory",
    "Appended",
    "AsyncClient",
    "Client",
    "Entry",
    "HmxError",
    "Pack",
    "Page",
    "Rejected",
    "message",
]
