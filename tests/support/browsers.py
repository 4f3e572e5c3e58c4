"""A real browser without a window, for tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
DESKTOP = {"viewport": {"width": 1440, "height": 900}}


@contextmanager
def browser_or_skip() -> Iterator[Browser]:
    """Run Chromium with a profile of its own; skip the tests where it is not installed."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no browser is installed ({', '.join(NAMES)})")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Browser, url: str, **options: object) -> Iterator[Page]:
    """Open a page in a context of its own; whatever it complains of, a breach of its policy for one, fails the test."""
    context = browser.new_context(**{**DESKTOP, **options})
    try:
        page = context.new_page()
        page.set_default_timeout(15_000)
        complaints: list[str] = []
        page.on("console", lambda told: complaints.append(told.text) if told.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        yield page
        expected = [text for text in complaints if "the server responded with a status of 4" in text]
        assert complaints == expected
    finally:
        context.close()
