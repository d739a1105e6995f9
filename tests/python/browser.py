# SPDX-License-Identifier: BSD-3-Clause
"""A page in a headless Chromium, and what it did, through the DevTools protocol."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from choreographer import Browser

_LIMIT_S = 60
logging.getLogger("choreographer").setLevel(logging.CRITICAL)


@dataclass
class SeenEffect:
    """What a page asked for and complained about, and what scripts in it returned."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)


def visit(page: Path, ready: str, scripts: Sequence[str], tabs: int = 0) -> SeenEffect:
    """Open a page, wait until ``ready`` is true in it, press Tab some times, run the scripts."""
    with contextlib.redirect_stderr(io.StringIO()):
        return asyncio.run(asyncio.wait_for(_visit(page, ready, scripts, tabs), _LIMIT_S))


async def _visit(page: Path, ready: str, scripts: Sequence[str], tabs: int) -> SeenEffect:
    seen = SeenEffect()

    async def on_request(event: Any) -> None:
        seen.requests.append(event["params"]["request"]["url"])

    async def on_complaint(event: Any) -> None:
        seen.complaints.append(str(event["params"]))

    async with Browser() as browser:
        tab = await browser.create_tab("")
        session = tab.get_session()
        tab.subscribe("Network.requestWillBeSent", on_request)
        for kind in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            tab.subscribe(kind, on_complaint)
        for domain in ("Network", "Runtime", "Log", "Page"):
            await session.send_command(f"{domain}.enable")
        await session.send_command("Page.navigate", {"url": page.resolve().as_uri()})

        async def run(script: str) -> Any:
            arguments = {"expression": script, "returnByValue": True, "awaitPromise": True}
            answer = await session.send_command("Runtime.evaluate", arguments)
            return answer["result"]["result"].get("value")

        while not await run(ready):
            await asyncio.sleep(0.1)
        for _ in range(tabs):
            for kind in ("rawKeyDown", "keyUp"):
                key = {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
                await session.send_command("Input.dispatchKeyEvent", key)
        for script in scripts:
            seen.returned.append(await run(script))
    return seen
