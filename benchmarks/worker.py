"""Measures a worker end to end on the embedded broker, from the raw topic to the outputs.

It is the demo's run on documents of one length. Broker, worker and feed each have a process, and
the feed is never more than a thousand documents ahead of the outputs (docs/demo.md says what is
real).

    python -m benchmarks.worker [--documents FILE] [--json FILE]
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.command import MeasurementError, add_number, errors_reported, new_parser
from benchmarks.report import Figures, Spread, publish
from benchmarks.texts import add_text_options, described, texts_of
from simhash_core.text.profiles import PROFILES
from streams.demo.live_view import Change, Progress
from streams.demo.run import DemoRequest, running_demo
from streams.demo.summary import DemoReport

DOCUMENTS: Final = 4_000
ROUNDS: Final = 3

_MICROSECONDS: Final = 1e6


class _Silence:
    """A view that shows nothing, because drawing would be measured too."""

    def starting(self, what: str) -> None: ...
    def show(self, progress: Progress, change: Change) -> None: ...
    def finish(self) -> None: ...


def run(texts: Sequence[str], rounds: int, source: str) -> Figures:
    """Measure all profiles in turns; raises ``FirstseenError`` and ``MeasurementError``."""
    figures = described(texts, source, rounds)
    reports: dict[str, list[DemoReport]] = {profile: [] for profile in PROFILES}
    with tempfile.TemporaryDirectory(prefix="firstseen-benchmark-") as directory:
        path = Path(directory) / "documents.jsonl"
        documents = ({"id": f"{number}", "text": text} for number, text in enumerate(texts))
        path.write_bytes(msgspec.json.Encoder().encode_lines(documents))
        for _ in range(rounds):
            for profile, measured in reports.items():
                measured.append(_one_run(str(path), profile))
    profiles = [_profiled(profile, measured) for profile, measured in reports.items()]
    return figures | {"profiles": profiles}


def _one_run(path: str, profile: str) -> DemoReport:
    with running_demo(DemoRequest(input=path, profile=profile), _Silence()) as demo:
        report = demo.play(_Silence())
    if not report.is_whole:
        raise MeasurementError(f"lost {report.lost}, repeated {report.repeated} documents")
    return report


def _profiled(profile: str, reports: Sequence[DemoReport]) -> Figures:
    cpu = (each.worker_cpu_seconds / each.documents * _MICROSECONDS for each in reports)
    return {
        "profile": profile,
        "documents_per_second": Spread.of(each.documents_per_second for each in reports),
        "worker_cpu_us": Spread.of(cpu),
        "stages": [_stage(each.stage, reports) for each in reports[-1].stages],
    }


def _stage(name: str, reports: Sequence[DemoReport]) -> Figures:
    times = [(each, report) for report in reports for each in report.stages if each.stage == name]
    documents = sum(report.documents for _, report in times)
    wall = (each.seconds / report.documents * _MICROSECONDS for each, report in times)
    return {
        "stage": name,
        "wall_us": Spread.of(wall),
        "documents_a_batch": round(documents / sum(each.batches for each, _ in times), 1),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser("benchmarks.worker", __doc__)
    add_text_options(parser, DOCUMENTS)
    add_number(parser, "--rounds", ROUNDS, "rounds of each variant")
    options = parser.parse_args(arguments)
    source, texts = texts_of(options)
    with errors_reported():
        publish(run(texts, options.rounds, source), options.json)


if __name__ == "__main__":
    main()
