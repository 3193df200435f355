"""The ops page in a real browser, on a real worker with real documents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.rigs.brokers.broker import Broker
from tests.rigs.workers.stream_harness import Stream
from tests.unit.ops_page.browser import FAINT, Watched, chromium, skip_module_without_browser
from tests.unit.ops_page.live_worker import EDITED, HOSTILE_ID, Live
from tests.unit.ops_page.served_page import LEADER, at_work, served_page

pytestmark = pytest.mark.browser
skip_module_without_browser()

WIDE, PHONE = (1280, 900), (390, 844)
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
HEADINGS = (
    *("The whole group", "This worker", "Latest duplicates"),
    *("Dead letters", "Check a text", "Index"),
)
TOKEN = "a+token/for+the+page=="  # noqa: S105 - a test's, with signs of Base64
SHOTS = os.environ.get("OPS_PAGE_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@contextmanager
def opened(browser: Browser, url: str, size: tuple[int, int] = WIDE) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    watched = Watched(context.new_page())
    watched.page.goto(url)
    yield watched
    context.close()


@pytest.fixture
def page(browser: Browser, live: Live) -> Iterator[Page]:
    """Open the worker's page; it must have no error, and load nothing from other hosts."""
    with opened(browser, live.worker.url) as watched:
        watched.page.wait_for_selector("#tiles dt")
        yield watched.page
    assert watched.complaints == []
    assert watched.elsewhere == []


def assert_readable(page: Page, name: str, size: tuple[int, int], *, full_page: bool) -> None:
    """Check that nothing scrolls sideways, and texts have contrast (WCAG AA), light and dark."""
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    for scheme in COLOURS:
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(FAINT) == [], scheme
        if SHOTS:
            page.evaluate("scrollTo(0, 0)")
            shot = Path(SHOTS) / f"{name}{size[0]}-{scheme}.png"
            page.screenshot(path=shot, full_page=full_page)


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["1280", "390"])
def test_page_fits_and_has_contrast(browser: Browser, live: Live, size: tuple[int, int]) -> None:
    with opened(browser, live.worker.url, size) as watched:
        page = watched.page
        page.wait_for_selector("#tiles dt")
        page.locator("summary").first.click()
        page.wait_for_selector("details[open] .text")
        page.fill("#text", EDITED)
        page.get_by_role("button", name="Check it").click()
        page.wait_for_selector("#answer .verdict")
        page.wait_for_selector("#worker-rows tr")
        for name in HEADINGS:
            expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        assert_readable(page, "", size, full_page=True)
    assert watched.complaints == []


def test_page_shows_the_status_of_the_worker_and_its_group(page: Page, live: Live) -> None:
    status = live.status()
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("#verdicts")).to_contain_text(f"{status['documents']['unique']:,}")
    rows = page.locator("#shard-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(f"{status['shards'][0]['entries']:,}")
    expect(page.locator("#lag-rows tr")).to_have_count(2)
    facts = page.locator("#log-facts")
    expect(facts).to_contain_text("this worker")
    # Control records may still come after the last verdict.
    expect(facts).to_contain_text(re.compile(r"read up to[\d,]+, 0 records behind"))
    expect(page.locator("#throughput svg polyline")).to_have_count(2)
    counts = status["distances"]["counts"]
    expect(page.locator("#distances i")).to_have_count(len(counts))
    shown = page.locator("#distances").get_attribute("aria-label") or ""
    assert f"0 bits: {counts[0]}" in shown
    head = page.locator("#about")
    expect(head).to_contain_text(f"worker {status['worker']['name']} on {status['worker']['host']}")
    expect(head).to_contain_text(f"group {status['application_id']}")
    row = page.locator("#worker-rows tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("this page")
    expect(row).to_contain_text("leads")
    expect(row).to_contain_text(f"{sum(status['documents'].values()):,}")


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["1280", "390"])
def test_page_shows_a_group_and_says_when_figures_are_old(
    browser: Browser, tmp_path: Path, size: tuple[int, int]
) -> None:
    with ExitStack() as stack:
        with served_page(tmp_path) as served:
            at_work(served)
            page = stack.enter_context(opened(browser, served.url, size)).page
            rows = page.locator("#worker-rows tr")
            expect(rows).to_have_count(3)
            expect(rows.nth(1)).to_contain_text("leads")
            link = rows.nth(1).get_by_role("link", name=LEADER)
            expect(link).to_have_attribute("href", "http://worker-1.internal:6066/")
            expect(rows.nth(2)).to_contain_text("none yet")
            expect(page.locator("#group-tiles")).to_contain_text("1,904")
            expect(page.locator("#trouble-facts")).to_contain_text("commit: broker 1")
            expect(page.locator("#verdicts")).to_contain_text("880")
            page.get_by_text("not json").click()
            expect(page.locator("#dead-letter-list pre").first).to_contain_text("<b>half")
            assert_readable(page, "group-", size, full_page=size == PHONE)
        expect(page.locator("#stale")).to_contain_text("No answer from this worker")
        assert page.evaluate(FAINT) == []
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"stale-{size[0]}.png")


def test_duplicate_stands_beside_its_original_as_mere_text(page: Page, live: Live) -> None:
    live.send(EDITED, ids=[HOSTILE_ID])
    page.reload()
    row = page.locator("details", has_text=HOSTILE_ID).first
    row.locator("summary").click()
    expect(row.locator(".sides .text")).to_have_count(2)
    expect(row.locator("del").first).to_have_text("Tuesday")
    expect(row.locator("ins").first).to_have_text("Wednesday")
    expect(row).to_contain_text("<script>document.title='owned'</script>")
    expect(row).to_contain_text("of 256 bits")
    assert page.locator("main img, main script").count() == 0
    assert page.title() != "owned"


def test_new_duplicates_do_not_move_what_is_read(page: Page, live: Live) -> None:
    page.locator("summary").first.click()
    page.wait_for_selector("details[open] .text")
    before = page.locator("summary").all_inner_texts()
    live.send(EDITED, ids=["one-more"])
    newer = page.get_by_role("button", name="newer")
    expect(newer).to_have_text("Show 1 newer")
    assert page.locator("summary").all_inner_texts() == before
    newer.press("Enter")
    expect(page.locator("summary").first).to_contain_text("one-more")
    expect(page.locator("summary").first).to_be_focused()


def test_text_is_checked_by_keyboard_alone(page: Page) -> None:
    keyboard = page.keyboard
    for _ in range(60):
        keyboard.press("Tab")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if page.evaluate("document.activeElement.id") == "text":
            break
    keyboard.insert_text(EDITED)
    keyboard.press("Control+Enter")
    answer = page.locator("#answer")
    expect(answer.locator(".verdict")).to_contain_text("duplicate of")
    expect(answer).to_contain_text("fingerprint")
    expect(answer.locator("tbody tr").first).to_contain_text("of 256")
    expect(answer.locator(".verdict")).to_be_focused()
    expect(answer.locator(".verdict")).to_be_in_viewport()


@pytest.mark.slow
def test_a_check_waits_as_long_as_the_worker_does(browser: Browser, live: Live) -> None:
    """Without a leader, the worker answers after 15 seconds, with the reason."""
    why, held = "no answer from the index within 15 s", list[Route]()
    with opened(browser, live.worker.url) as watched:
        page = watched.page
        page.wait_for_selector("#tiles dt")
        page.route("**/api/check", lambda route: held.append(route))  # noqa: PLW0108 - a builtin fails
        page.locator("#text").fill(EDITED)
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(15_000)
        held[0].fulfill(status=503, json={"error": {"reason": "unavailable", "message": why}})
        expect(page.locator("#answer")).to_have_text(why)


def test_parts_of_the_page_have_accessible_names(page: Page) -> None:
    expect(page.get_by_role("main")).to_have_count(1)
    for role, name in (("navigation", "Parts of this page"), ("region", "Latest duplicates")):
        expect(page.get_by_role(role, name=name)).to_have_count(1)  # type: ignore[arg-type]
    assert page.evaluate(NAMELESS) == []
    assert page.locator("#state").get_attribute("role") == "status"
    assert page.locator("#answer").get_attribute("aria-live") == "polite"


@pytest.mark.parametrize(
    ("changes", "state", "kind"),
    [
        ({"why_dead": "stalled: raw/0 at 7"}, "stalled: raw/0 at 7", "bad"),
        ({"broker_up": False}, "the broker does not answer", "bad"),
        ({"why_not_ready": "1 of 2 shards is being opened: 0"}, "1 of 2 shards", "wait"),
        ({"why_waiting": "documents have waited 130 s for shard 3"}, "for shard 3", "wait"),
    ],
)
def test_page_shows_troubles(page: Page, changes: dict[str, object], state: str, kind: str) -> None:
    def changed(route: Route) -> None:
        reply = route.fetch()
        status = reply.json()
        shard = {"state": "recovering", "recovered": 0.425, "remaining": 12_345, "entries": 0}
        status["shards"][0] |= shard
        route.fulfill(response=reply, json=status | changes)

    page.route("**/api/status", changed)
    expect(page.locator("#state")).to_contain_text(state)
    expect(page.locator("#state")).to_have_attribute("data-state", kind)
    row = page.locator("#shard-rows tr").first
    expect(row).to_contain_text("recovering 42.5%, 12,345 records left")
    expect(row.get_by_role("progressbar", name="shard 0, read")).to_have_attribute("value", "0.425")
    page.unroute_all(behavior="wait")


def test_page_asks_for_the_token_and_shows_when_the_worker_stops(
    browser: Browser, embedded_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", "utf-8")
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started(f"web.token_file={file}", "web.open_monitoring=true")
        with opened(browser, worker.url) as watched:
            page = watched.page
            expect(page.get_by_label("Token")).to_be_visible()
            expect(page.get_by_text("loading from the broker")).to_be_hidden()
            expect(page.get_by_role("navigation")).to_be_hidden()
            page.get_by_label("Token").fill("not-the-token-at-all")
            page.get_by_role("button", name="Use it").click()
            expect(page.locator("#access-trouble")).to_have_text("This token is wrong.")
            page.get_by_label("Token").fill(TOKEN)
            page.keyboard.press("Enter")
            expect(page.locator("#state")).to_have_text("ready")
            expect(page.locator("#access")).to_be_hidden()
            expect(page.locator("#group-note")).to_be_visible()
            assert page.context.cookies() == []

            other = page.context.new_page()
            other.goto(f"{worker.url}#token={TOKEN}")
            expect(other.locator("#state")).to_have_text("ready")
            assert TOKEN not in other.url

            worker.stop_gently()
            expect(page.locator("#state")).to_have_text("no answer from the worker")
            expect(page.locator("#stale")).to_contain_text("All figures below are old")


NAMELESS = """() => [...document.querySelectorAll(
    "button, input, textarea, progress, nav, section, [role=img]")]
  .filter((each) => each.offsetParent !== null)
  .filter((each) => !(each.ariaLabel || each.getAttribute("aria-labelledby") ||
    each.labels?.length || each.textContent.trim()))
  .map((each) => each.outerHTML.slice(0, 100))"""
"""Finds visible elements without a name for screen readers."""
