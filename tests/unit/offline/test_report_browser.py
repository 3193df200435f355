"""The report in a real browser: it fits a desk and a phone, and can be read by day and by night."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.unit.ops_page.browser import Watched, chromium

pytestmark = pytest.mark.browser

Colours = Literal["light", "dark"]

# The smallest text of a chart, in pixels of the screen, and the weakest contrast of any text.
_SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('svg text')].map(e => {
  const drawn = e.getScreenCTM();
  return Math.hypot(drawn.a, drawn.b) * parseFloat(getComputedStyle(e).fontSize);
}))"""
_WEAKEST = """() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = e => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(', 0)')) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = [...document.querySelectorAll('h1,h2,h3,h4,p,span,b,mark,figcaption,code,summary')];
  return Math.min(...texts.filter(e => e.textContent.trim()).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_can_be_read(browser: Browser, page: str, width: int, colours: Colours) -> None:
    """Contrast as WCAG AA wants it; hostile texts start nothing."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
    watched = Watched(context.new_page())
    watched.page.set_content(page)

    assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
    assert watched.page.evaluate(_SMALLEST_TEXT) >= 9
    assert watched.page.evaluate(_WEAKEST) >= 4.5
    sides = watched.page.locator(".case").first.locator(".side")
    first, second = sides.nth(0).bounding_box(), sides.nth(1).bounding_box()
    assert first is not None
    assert second is not None
    beside = second["x"] >= first["x"] + first["width"]
    assert beside == (width > 1000)
    assert beside or second["y"] >= first["y"] + first["height"]
    assert watched.complaints == []
    assert watched.elsewhere == []
    context.close()
