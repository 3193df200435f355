"""The examples do what they say; one whose library is not installed is skipped, and says so."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from firstseen import Deduplicator
from tests.repository.source_tree import ROOT
from tests.unit.api.test_deduplicator import article

EXAMPLES = ROOT / "examples"


@pytest.fixture
def seen() -> Iterator[Deduplicator]:
    with Deduplicator("classic") as made:
        yield made


def example(name: str) -> ModuleType:
    """Import an example, without running it."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_plain_loop_passes_each_line_once(tmp_path: Path) -> None:
    lines = "\n".join([article(1), article(2), article(1)])
    command = [sys.executable, str(EXAMPLES / "plain_loop.py")]
    told = ""
    for expected in ([article(1), article(2)], []):
        done = subprocess.run(
            command,
            input=lines,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
            timeout=120,
            check=True,
        )
        assert done.stdout.splitlines() == expected
        told += done.stderr
    assert "repeats number 0" in told


def test_arrow_batches_name_the_original_of_a_repeat(seen: Deduplicator) -> None:
    arrow = pytest.importorskip("pyarrow")
    module = example("arrow_batches")
    batches = [
        arrow.RecordBatch.from_pydict({"id": [1, 2], "text": [article(1), article(2)]}),
        arrow.RecordBatch.from_pydict({"id": [3, 4], "text": [article(3), article(2)]}),
    ]
    found = [module.with_originals(batch, seen).column("repeats").to_pylist() for batch in batches]
    assert found == [[None, None], [None, "2"]]


def test_pandas_frames_keep_the_first_rows(seen: Deduplicator) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [article(1), article(2), article(1)]})
    assert list(example("pandas_frames").without_repeats(frame, seen).index) == [0, 1]


def test_quix_streams_step_names_the_original_but_not_the_document_itself(
    seen: Deduplicator,
) -> None:
    pytest.importorskip("quixstreams")
    step = example("quix_streams_step").step
    documents = [("a", article(1)), ("b", article(1)), ("a", article(1))]
    found = [step({"id": name, "text": text}, seen)["repeats"] for name, text in documents]
    assert found == [None, "a", None]


def test_first_example_of_the_page_prints_what_it_says() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=120, check=True
    )
    first, second = done.stdout.splitlines()
    assert first == "Unique()"
    assert second.startswith("DuplicateOf(original_id='a'")
