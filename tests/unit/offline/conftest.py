"""A report of an evaluation, made once for all tests of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.evaluation.report_page import report_content, report_page
from streams.settings.index import IndexSettings
from streams.settings.settings import Settings
from tests.unit.offline.labelled_sample import labelled_sample

HOSTILE = "</div><script>alert(1)</script><img src=x onerror=alert(2)> &amp; \"'"


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a sample with hostile texts in it, at a threshold that errs both ways."""
    sample = labelled_sample(tmp_path_factory.mktemp("report"), documents=60)
    lines_ = [json.loads(line) for line in Path(sample.documents).read_bytes().splitlines()]
    for number, fields in enumerate(lines_):
        fields["text"] = HOSTILE + fields["text"]
        fields["title"] = HOSTILE
        fields["group"] = f"{HOSTILE}{number}"
    Path(sample.documents).write_text("\n".join(map(json.dumps, lines_)), "utf-8")
    settings = Settings(index=IndexSettings(distance=14))
    return report_page(report_content((sample.documents, sample.pairs), settings))
