"""Finds dead links in the Markdown of this repository: files and headings that are not there.

    python docs/check_links.py [ROOT]

Relative links and anchors are checked, in every *.md under ROOT outside hidden directories; links
to other hosts are not, as no network is used. Each dead link is printed as file:line, and the
exit code is 1; it is 2 where ROOT has no Markdown at all. Headings get the anchors that GitHub
gives them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

PARSER = MarkdownIt("commonmark").enable("table")

# GitHub keeps letters (of any script), digits, underscores, hyphens and spaces of a heading.
_DROPPED_FROM_ANCHOR = re.compile(r"[^\w\- ]")
_LINES_OF_SOURCE = re.compile(r"L\d+(-L\d+)?")


@dataclass(frozen=True, slots=True)
class Link:
    """A link in a document: the line of the paragraph it is in, counted from 1, and its target."""

    line: int
    target: str


@dataclass(frozen=True, slots=True)
class Page:
    """What one Markdown document links to, and the anchors it offers."""

    links: tuple[Link, ...]
    anchors: frozenset[str]


class _HtmlAttributes(HTMLParser):
    """Collects the targets and anchors of HTML inside Markdown."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the href or src of `tag` as a target, its id or name as an anchor."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.targets.append(value)
            elif value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.append(value)


def parse_page(markdown: str) -> Page:
    """Return the links and anchors of a document."""
    links: list[Link] = []
    anchors: set[str] = set()
    seen: Counter[str] = Counter()
    line = 1
    tokens = PARSER.parse(markdown)
    for index, token in enumerate(tokens):
        line = token.map[0] + 1 if token.map else line
        if token.type == "heading_open":
            slug = anchor_of(_text_of(tokens[index + 1]))
            anchors.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
        for part in (token, *(token.children or ())):
            targets, named = _targets_and_anchors(part)
            links.extend(Link(line, target) for target in targets)
            anchors.update(named)
    return Page(tuple(links), frozenset(anchors))


def _targets_and_anchors(token: Token) -> tuple[list[str], list[str]]:
    if token.type in ("html_block", "html_inline"):
        html = _HtmlAttributes()
        html.feed(token.content)
        return html.targets, html.anchors
    target = token.attrGet("href") or token.attrGet("src")
    return [str(target)] if target is not None else [], []


def _text_of(inline: Token) -> str:
    parts = inline.children or ()
    return "".join(part.content for part in parts if part.type in ("text", "code_inline"))


def anchor_of(heading: str) -> str:
    """Return the anchor that GitHub gives the first heading of this text in a page."""
    return _DROPPED_FROM_ANCHOR.sub("", heading.strip().lower()).replace(" ", "-")


def dead_links(root: Path) -> list[str]:
    """Return a line `file:line: target: reason` for each dead link under `root`."""
    root = root.resolve()
    return [
        f"{path.relative_to(root)}:{link.line}: {link.target}: {reason}"
        for path in markdown_files(root)
        for link in _page_at(path).links
        if (reason := _why_dead(link.target, path, root))
    ]


def markdown_files(root: Path) -> Iterator[Path]:
    """Every Markdown file under `root`, in order, except in hidden directories."""
    for path in sorted(root.rglob("*.md")):
        directories = path.relative_to(root).parts[:-1]
        # .github holds documents for readers; environments and caches hold other people's.
        if all(not name.startswith(".") or name == ".github" for name in directories):
            yield path


@cache
def _page_at(path: Path) -> Page:
    return parse_page(path.read_text("utf-8"))


def _why_dead(target: str, page: Path, root: Path) -> str | None:
    url = urlsplit(target)
    if url.scheme or url.netloc:
        return None
    if url.path.startswith("/"):
        return "a path from the root of a host; write it relative to this page"
    linked = (page.parent / unquote(url.path)).resolve() if url.path else page
    if not linked.is_relative_to(root):
        return "leads out of the repository"
    if not linked.exists():
        return "no such file"
    return _why_anchor_dead(unquote(url.fragment), linked)


def _why_anchor_dead(anchor: str, linked: Path) -> str | None:
    if not anchor:
        return None
    if linked.suffix == ".md":
        return None if anchor in _page_at(linked).anchors else "no such heading"
    return None if _LINES_OF_SOURCE.fullmatch(anchor) else "an anchor into a file that has none"


def main(arguments: list[str]) -> int:
    """Print the dead links under the given root, or this repository; return the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    if not any(markdown_files(root.resolve())):
        print(f"check_links: no Markdown under {root}", file=sys.stderr)
        return 2
    dead = dead_links(root)
    for line in dead:
        print(line)
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
