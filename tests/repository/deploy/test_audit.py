"""`make audit` and `make sbom`: what is said of the parts, and that none is left out."""

from __future__ import annotations

import json
import runpy
import subprocess
from typing import Any

import pytest
from jsonschema import Draft7Validator
from packaging.utils import canonicalize_name
from referencing import Registry, Resource

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


def summarised(*parts: dict[str, Any]) -> tuple[list[str], int]:
    lines, code = AUDIT["summarised"]({"dependencies": list(parts), "fixes": []})
    return list(lines), code


def cyclonedx() -> Draft7Validator:
    """The schema of CycloneDX 1.6, as its makers publish it, from among the tools."""
    (directory,) = (ROOT / ".venv-tools").glob("lib/*/site-packages/cyclonedx/schema/_res")
    registry: Registry[Any] = Registry()
    for name in ("spdx.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json"):
        part = Resource.from_contents(json.loads((directory / name).read_text("utf-8")))
        registry = registry.with_resource(f"http://cyclonedx.org/schema/{name}", part)
    schema = json.loads((directory / "bom-1.6.SNAPSHOT.schema.json").read_text("utf-8"))
    return Draft7Validator(schema, registry=registry)


def test_no_known_vulnerability_is_a_success() -> None:
    assert summarised(CLEAN, CLEAN) == (["no known vulnerability in 2 parts"], 0)


def test_a_known_vulnerability_fails_and_is_named_with_its_fix() -> None:
    lines, code = summarised(CLEAN, FAULTY, SKIPPED)
    assert code == 1
    assert lines[1] == "aiohttp 3.8.0: PYSEC-2023-120 (CVE-2023-37276); fixed in 3.8.5"


@pytest.mark.parametrize("parts", [(CLEAN, SKIPPED), (SKIPPED,), ()])
def test_parts_that_were_not_looked_up_are_no_success(parts: tuple[dict[str, Any], ...]) -> None:
    (line,), code = summarised(*parts)
    assert code == AUDIT["UNAVAILABLE"]
    assert "could not be looked up" in line
    assert line.startswith(f"{len([part for part in parts if part is SKIPPED])} of {len(parts)}")


def test_the_tools_have_a_pin_for_each_requirement() -> None:
    directory = ROOT / "deploy" / "tools"
    wanted = (directory / "requirements.in").read_text("utf-8").splitlines()
    names = {canonicalize_name(line) for line in wanted if not line.startswith("#")}
    assert names <= pins_in(directory / "requirements.txt").keys()


def test_the_list_of_parts_is_valid_cyclonedx_and_has_every_pin() -> None:
    run_tool("cyclonedx-py", "--version")

    made = subprocess.run(
        # Its own validation looks at the grammar of each address as well, for fifteen seconds.
        ["make", "--no-print-directory", "sbom", "ARGS=--no-validate"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert made.returncode == 0, made.stderr
    content = json.loads((ROOT / "build" / "sbom.cdx.json").read_text("utf-8"))
    cyclonedx().validate(content)
    about = content["metadata"]["component"]
    assert (content["bomFormat"], content["specVersion"]) == ("CycloneDX", "1.6")
    assert (about["name"], about["version"]) == ("firstseen", project()["version"])
    listed: dict[str, Any] = {
        canonicalize_name(part["name"]): part for part in content["components"]
    }
    pins = pins_in(ROOT / "constraints.txt")
    for name, pinned in pins.items():
        assert listed[name]["version"] == pinned
        assert listed[name]["purl"].startswith("pkg:pypi/")
    licensed = [part for part in content["components"] if part.get("licenses")]
    assert len(licensed) > 0.9 * len(pins)
