"""The ops page put together from the parts of a worker."""

from __future__ import annotations

import asyncio

from streams.documents.raw_documents import DocumentReader
from streams.ops_page.api import Api
from streams.ops_page.duplicate_views import DuplicateViews
from streams.ops_page.status import Monitored, StatusReport
from streams.ops_page.text_check import TextCheck
from streams.settings.settings import Settings


class OpsPage:
    """What one worker's server asks; any thread may."""

    def __init__(
        self,
        settings: Settings,
        parts: Monitored,
        loop: asyncio.AbstractEventLoop,
        reader: DocumentReader,
    ) -> None:
        """``loop`` and ``reader`` are the worker's. Nothing heavy is loaded before it is needed."""
        self.parts = parts
        views = DuplicateViews(parts.recent, reader, parts.profile.scheme())
        self._report = StatusReport(settings, parts)
        check = TextCheck(parts.profile, parts.view, loop, views.text_of)
        self.api = Api(self._report, views, check, settings.max_record_bytes)

    def tick(self) -> None:
        """Take a sample where it is time to; from one thread, often."""
        self._report.tick()
