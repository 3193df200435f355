"""``make audit``: asks public databases for known vulnerabilities of the pinned dependencies.

    python deploy/tools/audit.py

It needs the network. What could not be looked up has not been found harmless: where one part was
not, the databases are tried one after the other, and then the audit fails, with the reason.

Exit codes: 0 nothing known, 1 something is, 69 not all parts could be looked up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
PIP_AUDIT: Final = ROOT / ".venv-tools" / "bin" / "pip-audit"
DATABASES: Final = ("pypi", "osv")
UNAVAILABLE: Final = 69

_SECONDS: Final = 300.0
_REASON_CHARACTERS: Final = 300


class AuditResult(NamedTuple):
    """What an audit has found: lines for people, and how it ends."""

    lines: Sequence[str]
    exit_code: int


def summarised(report: Mapping[str, Any]) -> AuditResult:
    """Judge what pip-audit reports as JSON."""
    parts = report["dependencies"]
    skipped = [part for part in parts if "skip_reason" in part]
    known = [
        f"{part['name']} {part['version']}: {fault['id']}"
        f" ({', '.join(fault['aliases']) or 'no other name'}); fixed in"
        f" {', '.join(fault['fix_versions']) or 'no version yet'}"
        for part in parts
        for fault in part.get("vulns", [])
    ]
    if known:
        return AuditResult([f"{len(known)} known vulnerabilities:", *known], 1)
    if skipped or not parts:
        why = skipped[0]["skip_reason"] if skipped else "the report is empty"
        return AuditResult(
            [f"{len(skipped)} of {len(parts)} parts could not be looked up: {why}"], UNAVAILABLE
        )
    return AuditResult([f"no known vulnerability in {len(parts)} parts"], 0)


def audited(database: str) -> AuditResult:
    """Run pip-audit on constraints.txt with one database."""
    command = [
        *(str(PIP_AUDIT), "--vulnerability-service", database, "--format", "json"),
        *("--requirement", str(ROOT / "constraints.txt"), "--no-deps", "--disable-pip"),
        *("--progress-spinner", "off"),
    ]
    try:
        run = subprocess.run(  # noqa: S603 - a tool of ours
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError:
        return AuditResult([f"no {PIP_AUDIT.relative_to(ROOT)}: run make tools"], UNAVAILABLE)
    except subprocess.TimeoutExpired:
        return AuditResult([f"no answer within {_SECONDS:g} s"], UNAVAILABLE)
    try:
        return summarised(json.loads(run.stdout))
    except json.JSONDecodeError:
        # Without its database it ends with a traceback, whose last line has the reason.
        last = (run.stderr.strip().splitlines() or ["it has said nothing"])[-1]
        return AuditResult([last[:_REASON_CHARACTERS]], UNAVAILABLE)


def main() -> int:
    """Audit with the first database that knows all parts; print what it says."""
    result = AuditResult([], UNAVAILABLE)
    for database in DATABASES:
        result = audited(database)
        for line in result.lines:
            print(f"{database}: {line}")
        if result.exit_code != UNAVAILABLE:
            return result.exit_code
    print("make audit: nothing is known; the dependencies have not been audited", file=sys.stderr)
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
