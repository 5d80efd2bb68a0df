"""A headless Chromium, driven over W3C WebDriver: chromedriver's HTTP, and as much of it as the tests need.

Enters: nothing but the two programs on the PATH. Leaves: a `Browser`, ended with its driver. Fails with AssertionError
where one of them is lacking, where it does not start, or where what is waited for does not come.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import httpx

from hmx_pipeline.local.ports import free_ports
from tests.support.waiting import PATIENCE_S, until

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""How WebDriver names a reference to an element (W3C WebDriver §11)."""
PROGRAMS = {"chromium": "chromium", "chromedriver": "chromium-driver"}
"""Program → the Debian package that brings it."""
TAB, ENTER = "\ue004", "\ue007"


class Element:
    def __init__(self, session: Browser, name: str) -> None:
        self._session = session
        self.name = name

    @property
    def text(self) -> str:
        return str(self._session.get(f"element/{self.name}/text"))

    def attribute(self, name: str) -> str | None:
        value = self._session.get(f"element/{self.name}/attribute/{name}")
        return None if value is None else str(value)

    def click(self) -> None:
        self._session.post(f"element/{self.name}/click")

    def type(self, text: str) -> None:
        self._session.post(f"element/{self.name}/value", text=text)

    def clear(self) -> None:
        self._session.post(f"element/{self.name}/clear")

    def all(self, css: str) -> list[Element]:
        found = self._session.post(f"element/{self.name}/elements", using="css selector", value=css)
        return [Element(self._session, one[ELEMENT]) for one in found]


class Browser:
    """One window. What is asked for is waited for: pages fill in what they have asked the service for."""

    def __init__(self, driver: httpx.Client, capabilities: dict[str, Any]) -> None:
        self._driver = driver
        made = self._value(driver.post("/session", json={"capabilities": {"alwaysMatch": capabilities}}))
        self._path = f"/session/{made['sessionId']}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._driver.delete(self._path)

    def get(self, what: str) -> Any:
        return self._value(self._driver.get(f"{self._path}/{what}"))

    def post(self, what: str, **body: Any) -> Any:
        return self._value(self._driver.post(f"{self._path}/{what}", json=body))

    def open(self, url: str) -> None:
        self.post("url", url=url)

    def all(self, css: str) -> list[Element]:
        found = self.post("elements", using="css selector", value=css)
        return [Element(self, one[ELEMENT]) for one in found]

    def one(self, css: str, text: str = "") -> Element:
        """The first that is like this and shows this text; waited for."""
        found: list[Element] = []

        def there() -> bool:
            try:
                found[:] = [each for each in self.all(css) if text in each.text][:1]
            except StaleError:  # the page has filled it in anew meanwhile
                return False
            return bool(found)

        until(there, f"{css!r} with {text!r} is there", PATIENCE_S)
        return found[0]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.post("execute/sync", script=script, args=list(arguments))

    def press(self, *keys: str) -> None:
        pressed = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.post("actions", actions=[{"type": "key", "id": "keyboard", "actions": pressed}])

    def view(self, width: int, height: int, scheme: str = "light") -> None:
        """The window's inside, in pixels, by day or by night."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        scheme_is = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.post("goog/cdp/execute", cmd="Emulation.setDeviceMetricsOverride", params=size)
        self.post("goog/cdp/execute", cmd="Emulation.setEmulatedMedia", params=scheme_is)

    def told(self) -> list[dict[str, Any]]:
        """What the console has said since it was last asked: errors, refused resources."""
        return list(self.post("se/log", type="browser"))

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.get("screenshot")))

    @staticmethod
    def _value(answer: httpx.Response) -> Any:
        value = answer.json()["value"]
        if isinstance(value, dict) and value.get("error") == "stale element reference":
            raise StaleError(value["message"])
        assert answer.is_success, value
        return value


class StaleError(Exception):
    """An element that is no longer part of the page."""


@contextmanager
def browsing(*flags: str) -> Iterator[Browser]:
    lacking = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    assert not lacking, f"install {' '.join(sorted(lacking))} (Debian's packages), as `make test-web` does for root"
    (port,) = free_ports(1)
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's own sandbox refuses root
    with tempfile.TemporaryDirectory(prefix="hmx-browser-") as profile:
        options = {
            "binary": shutil.which("chromium"),
            "args": ["--headless=new", "--disable-dev-shm-usage", f"--user-data-dir={profile}", *root, *flags],
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S) as client:
                until(lambda: _answers(client), "chromedriver answers")
                with Browser(client, wanted) as browser:
                    yield browser
        finally:
            driver.terminate()
            driver.wait()


def _answers(client: httpx.Client) -> bool:
    try:
        return bool(client.get("/status").json()["value"]["ready"])
    except httpx.TransportError:
        time.sleep(0.05)
        return False
