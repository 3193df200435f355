"""`firstseen config`: every setting with its origin, no secret, and all mistakes at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.settings.loader import setting_fields
from streams.settings.reference import BEGIN, END
from tests.unit.cli.running import firstseen

SECURE = {
    "FIRSTSEEN_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "FIRSTSEEN_KAFKA__SASL_MECHANISM": "PLAIN",
    "FIRSTSEEN_KAFKA__SASL_USERNAME": "lu",
    "FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush",
}


def test_show_has_every_setting_and_its_origin(tmp_path: Path) -> None:
    (config := tmp_path / "firstseen.toml").write_text("[batch]\ndocuments = 7\n")

    result = firstseen(
        *("config", "show", "--json", "--config", str(config), "--profile", "classic"),
        *("--broker", "k-1:9092", "--set", "index.distance=2"),
        environ={"FIRSTSEEN_LOG__LEVEL": "debug"},
    )

    content = json.loads(result.stdout)
    assert content["schema"] == "firstseen.config/1"
    shown = content["settings"]
    assert set(shown) == set(setting_fields())
    expected = {
        "batch.documents": (7, f"the file {config}"),
        "brokers": ("k-1:9092", "--broker"),
        "profile": ("classic", "--profile"),
        "index.distance": (2, "--set"),
        "index.bits": (64, "the profile classic"),
        "log.level": ("debug", "the environment variable FIRSTSEEN_LOG__LEVEL"),
        "web.port": (6066, "default"),
        "broker_wait_seconds": (None, "default"),
        "include_body": (False, "default"),
    }
    assert {name: (shown[name]["value"], shown[name]["origin"]) for name in expected} == expected


def test_variables_name_files_and_a_flag_names_another(tmp_path: Path) -> None:
    (by_variable := tmp_path / "a.toml").write_text('application_id = "variable"\n')
    (by_flag := tmp_path / "b.toml").write_text('application_id = "flag"\n')
    (properties := tmp_path / "c.properties").write_text("bootstrap.servers=p:1\n")
    environ = {"FIRSTSEEN_CONFIG": str(by_variable), "FIRSTSEEN_KAFKA_CONFIG": str(properties)}
    shown = json.loads(firstseen("config", "show", "--json", environ=environ).stdout)["settings"]
    other = firstseen("config", "show", "--json", "--config", str(by_flag), environ=environ)
    assert shown["application_id"]["value"] == "variable"
    assert shown["brokers"]["value"] == "p:1"
    assert json.loads(other.stdout)["settings"]["application_id"]["value"] == "flag"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_says_of_a_secret_only_that_it_is_set(form: list[str]) -> None:
    output = firstseen("config", "show", *form, environ=SECURE).stdout
    for part in ("kafka.sasl.password", "(set)", "lu"):
        assert part in output
    assert "hush" not in output


def test_validate_accepts_a_valid_configuration() -> None:
    result = firstseen("config", "validate", environ=SECURE)
    assert (result.returncode, result.stderr) == (ExitCode.OK, "")
    assert "4 given" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "environ", "named"),
    [
        (
            ["--set", "topics.raw=unique", "--set", "bacth.documents=5"],
            {"FIRSTSEEN_BROKER": "x", "FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush"},
            ["batch.documents", "FIRSTSEEN_BROKERS"],
        ),
        (  # rules are checked only when all names are known
            ["--set", "topics.raw=unique"],
            {"FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush"},
            ["topics.unique", "kafka.sasl.password"],
        ),
    ],
)
def test_validate_tells_all_problems_a_line_each_without_secrets(
    arguments: list[str], environ: dict[str, str], named: list[str]
) -> None:
    result = firstseen("config", "validate", *arguments, environ=environ)
    assert (result.returncode, result.stdout) == (ExitCode.CONFIGURATION, "")
    _, *problems = result.stderr.splitlines()
    assert len(problems) == len(named)
    assert all(name in problem for name, problem in zip(named, problems, strict=True))
    assert "hush" not in result.stderr


def test_reference_brings_the_tables_of_a_page_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert firstseen("config", "reference", "--update", str(page)).returncode == ExitCode.OK
    tables = firstseen("config", "reference").stdout.strip()
    assert page.read_text("utf-8") == f"before\n{BEGIN}\n\n{tables}\n\n{END}\nafter\n"
