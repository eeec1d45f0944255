"""A real browser for tests, and what it complains about."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    return os.environ.get("PWCF_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def started() -> Iterator[object]:
    """Headless Chromium; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which drives a browser")
    place = executable()
    if place is None:
        pytest.skip(f"needs Chromium: none of {', '.join(NAMES)} is installed, and PWCF_CHROMIUM names none")
    flags = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync"]  # fmt: skip
    if hasattr(os, "getuid") and os.getuid() == 0:
        flags.append("--no-sandbox")  # which root cannot have
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=place, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that is looked at: ``complaints`` has everything that a page without fault would not say or ask for."""

    def __init__(self, browser, path: Path, width: int = 1280, scheme: str = "light", at: str = "", **options) -> None:
        self.complaints: list[str] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, **options
        )  # of its own: nothing is kept from one test to the next
        self.page = self.context.new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)
        self.address = path.resolve().as_uri()
        self.page.goto(self.address + at)
        self.page.wait_for_selector("html[data-ready]")

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text}")

    def _dialog(self, dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        # A data address is no request to anybody: what it names is in the page.
        if request.url.partition("#")[0] != self.address and not request.url.startswith("data:"):
            self.complaints.append(f"request: {request.url}")

    def wait_for_fragment(self, ending: str) -> None:
        """Wait until what follows the # of the address ends so; a dialog tells that it was closed a moment later."""
        self.page.wait_for_function("ending => ending ? location.hash.endsWith(ending) : !location.hash", arg=ending)

    def run(self, script: str):
        return self.page.evaluate(script)

    def close(self) -> None:
        self.context.close()
