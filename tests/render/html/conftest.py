"""A real Chromium, without network, that opens pages and lets nothing pass: every console error fails the test.

Set PIPESCHED_BROWSER to the path of a Chromium: then these tests fail where they would be skipped.
Set it to nothing to skip them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipesched.render.html.page import page as page_of

ROOT = Path(__file__).parents[3]
BROWSER = os.environ.get("PIPESCHED_BROWSER", shutil.which("chromium") or shutil.which("google-chrome"))
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
Open = Callable[..., Any]


def missing(what: str) -> None:
    """Skip, or fail where a browser was promised."""
    if os.environ.get("PIPESCHED_BROWSER"):
        pytest.fail(what)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser."""
    if not BROWSER:
        missing("needs Chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("needs playwright")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=[*QUIET, "--disable-sync"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """A function that opens the page of a result (or a given HTML), offline, and waits until it is drawn.

    Messages of the console at the level of a warning, errors and requests fail the test at its end.
    """
    said: list[str] = []
    contexts: list[Any] = []

    def opened(result: object, fragment: str = "", *, width: int = 1280, wait: bool = True, **more: Any) -> Any:
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_text(result if isinstance(result, str) else page_of(result), encoding="utf-8")
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **more)
        context.set_default_timeout(120_000)  # of a machine that does much else
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
        page.goto(f"{file.as_uri()}{fragment}")
        if wait:
            page.evaluate("pipesched.ready")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert said == []
