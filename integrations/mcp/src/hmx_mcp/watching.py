"""Subscriptions: tells a client of hmx-mcp when a resource it named reads otherwise than before.

Asks the service every LOOK_S, and only while something is subscribed. Over HTTP the server keeps no sessions, so only
stdio has this. A service that is away, or answers oddly, changes nothing.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Final

from hmx_mcp.answers import INVALID_PARAMS, RefusedError, read
from hmx_mcp.service import Json, Service, ServiceError

LOOK_S: Final = 2.0
WATCHED: Final = 32
"""Resources that are watched at a time."""


class Watching:
    def __init__(self, service: Service, tell: Callable[[Json], None]) -> None:
        """`tell` gets the parameters of each `notifications/resources/updated`."""
        self._service, self._tell = service, tell
        self._listeners: dict[object, tuple[frozenset[str], Json]] = {}
        """What each listens to, and what it is told beside the URI."""
        self._seen: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._looking = False

    def listen(self, who: object, uris: Iterable[str], about: Json) -> None:
        """Raises RefusedError for too many resources."""
        named = frozenset(uris)
        with self._lock:
            if len(named.union(*(heard for heard, _ in self._listeners.values()))) > WATCHED:
                raise RefusedError(INVALID_PARAMS, f"at most {WATCHED} resources are watched")
            if len(self._listeners) >= WATCHED:
                raise RefusedError(INVALID_PARAMS, f"at most {WATCHED} subscriptions are open")
            if not self._looking:
                threading.Thread(target=self._look, daemon=True).start()
                self._looking = True
            self._listeners[who] = named, about
            fresh = named - self._seen.keys()
        read = {uri: self._reading(uri, None) for uri in fresh}
        with self._lock:
            self._seen = {**read, **self._seen}

    def leave(self, who: object) -> None:
        with self._lock:
            self._listeners.pop(who, None)

    def _look(self) -> None:
        """Lasts as long as anybody listens."""
        pause = threading.Event()
        while True:
            pause.wait(LOOK_S)
            with self._lock:
                listeners = dict(self._listeners)
                wanted = frozenset[str]().union(*(heard for heard, _ in listeners.values()))
                self._seen = {uri: known for uri, known in self._seen.items() if uri in wanted}
                self._looking = bool(listeners)
                if not listeners:
                    return
            for uri in wanted & self._seen.keys():
                before, self._seen[uri] = self._seen[uri], self._reading(uri, self._seen[uri])
                if self._seen[uri] != before:
                    for heard, about in listeners.values():
                        if uri in heard:
                            self._tell({"uri": uri, **about})

    def _reading(self, uri: str, before: str | None) -> str | None:
        """What it says now; none if there is no such record. What cannot be read is as before."""
        try:
            return read(self._service, uri)
        except ServiceError as error:
            return None if error.status == 404 else before
        except Exception:  # noqa: BLE001  an answer that is none of the service's, or a URI that no request can hold
            return before
