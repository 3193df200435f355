"""Runs the system's Chromium, headless, by Playwright; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.rigs.required_tools import give_up

WAIT_MS = 20_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_NONE = f"no browser among {', '.join(_NAMES)} (Debian: apt-get install chromium)"
# Containers have no user namespaces for the sandbox, and little shared memory.
_ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")


def skip_module_without_browser() -> None:
    """Skip the calling module before it starts a worker, unless tools are required."""
    if _path() is None and os.environ.get("FIRSTSEEN_REQUIRE_TOOLS") != "1":
        pytest.skip(_NONE, allow_module_level=True)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser; without one, skip the test, or fail it if tools are required."""
    path = _path()
    if path is None:
        give_up(_NONE)
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=path, args=list(_ARGUMENTS), timeout=WAIT_MS
            )
        except Error as error:
            give_up(f"{path} does not start: {error.message.splitlines()[0]}")
        try:
            yield browser
        finally:
            browser.close()


def _path() -> str | None:
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Watched:
    """Collects the errors of a page, and its requests to other hosts."""

    def __init__(self, page: Page) -> None:
        page.set_default_timeout(WAIT_MS)
        self.page = page
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))

    def _said(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(f"{kind}: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith(("http://127.0.0.1:", "data:,")):
            self.elsewhere.append(url)


FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const each = node.parentElement;
    if (!node.data.trim() || !each.offsetParent) continue;
    const a = light(rgba(getComputedStyle(each).color)), b = light(ground(each));
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)}: ${node.data.trim().slice(0, 40)}`);
  }
  return found;
}"""
"""Finds texts whose contrast with their background is below 4.5 to 1."""
