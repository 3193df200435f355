"""`make audit` and `make sbom`: what they report on packages, and that they omit none."""

from __future__ import annotations

import json
import runpy
import subprocess
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from tests.repository.deploy.shipped_files import pins_in, project, run_tool
from tests.repository.source_tree import ROOT

AUDIT = runpy.run_path(str(ROOT / "deploy" / "tools" / "audit.py"))

CLEAN: dict[str, Any] = {"name": "click", "version": "8.3.3", "vulns": []}
SKIPPED: dict[str, Any] = {"name": "rich", "skip_reason": "Dependency not found on PyPI"}
FAULTY: dict[str, Any] = {
    "name": "aiohttp",
    "version": "3.8.0",
    "vulns": [{"id": "PYSEC-2023-120", "fix_versions": ["3.8.5"], "aliases": ["CVE-2023-37276"]}],
}


@pytest.mark.parametrize(
    ("parts", "code", "says"),
    [
        ([CLEAN, CLEAN], 0, "no known vulnerability in 2 parts"),
        (
            [CLEAN, FAULTY, SKIPPED],
            1,
            "aiohttp 3.8.0: PYSEC-2023-120 (CVE-2023-37276); fixed in 3.8.5",
        ),
        ([CLEAN, SKIPPED], AUDIT["UNAVAILABLE"], "1 of 2"),
        ([SKIPPED], AUDIT["UNAVAILABLE"], "1 of 1"),
        ([], AUDIT["UNAVAILABLE"], "0 of 0"),
    ],
)
def test_only_parts_that_were_looked_up_are_a_success(
    parts: list[dict[str, Any]], code: int, says: str
) -> None:
    lines, actual = AUDIT["summarised"]({"dependencies": parts, "fixes": []})
    assert actual == code
    assert lines[-1].startswith(says)


def test_the_tools_have_a_pin_for_each_requirement() -> None:
    directory = ROOT / "deploy" / "tools"
    wanted = (directory / "requirements.in").read_text("utf-8").splitlines()
    names = {canonicalize_name(line) for line in wanted if not line.startswith("#")}
    assert names <= pins_in(directory / "requirements.txt").keys()


def test_the_list_of_parts_has_every_pin() -> None:
    run_tool("cyclonedx-py", "--version")

    made = subprocess.run(
        # make sbom validates it; the check of each URL's grammar takes fifteen seconds.
        ["make", "--no-print-directory", "sbom", "ARGS=--no-validate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert made.returncode == 0, made.stderr
    content = json.loads((ROOT / "build" / "sbom.cdx.json").read_text("utf-8"))
    about = content["metadata"]["component"]
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert (about["name"], about["version"]) == ("firstseen", project()["version"])
    parts = content["components"]
    listed = {canonicalize_name(each["name"]): each["version"] for each in parts}
    pins = pins_in(ROOT / "constraints.txt")
    assert pins.items() <= listed.items()
    assert sum("licenses" in each for each in parts) > 0.9 * len(pins)
