"""`firstseen config` shows every setting with its origin, no secret, and all mistakes together."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.settings.loader import setting_fields
from streams.settings.reference import BEGIN, END
from tests.unit.cli.running import message_of, report_of, run_here

pytestmark = pytest.mark.usefixtures("empty_directory")

SECURE = {
    "FIRSTSEEN_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "FIRSTSEEN_KAFKA__SASL_MECHANISM": "PLAIN",
    "FIRSTSEEN_KAFKA__SASL_USERNAME": "lu",
    "FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush",
}


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_show_has_every_setting_and_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("a.toml").write_text("[batch]\ndocuments = 7\n")
    Path("c.properties").write_text("bootstrap.servers=p:1\n")
    variables = {"CONFIG": "other.toml", "KAFKA_CONFIG": "c.properties", "LOG__LEVEL": "debug"}
    set_variables(monkeypatch, {f"FIRSTSEEN_{name}": each for name, each in variables.items()})

    content = report_of(
        *("config", "show", "--config", "a.toml", "--profile", "classic"),
        *("--set", "index.distance=2"),
    )

    assert content["schema"] == "firstseen.config/1"
    shown = content["settings"]
    assert set(shown) == set(setting_fields())
    expected = {
        "batch.documents": (7, "the file a.toml"),
        "brokers": ("p:1", "the file c.properties"),
        "profile": ("classic", "--profile"),
        "index.distance": (2, "--set"),
        "index.bits": (64, "the profile classic"),
        "log.level": ("debug", "the environment variable FIRSTSEEN_LOG__LEVEL"),
        "web.port": (6066, "default"),
        "broker_wait_seconds": (None, "default"),
        "include_body": (False, "default"),
    }
    assert {name: (shown[name]["value"], shown[name]["origin"]) for name in expected} == expected


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_show_says_of_a_secret_only_that_it_is_set(
    form: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, SECURE)
    output = run_here("config", "show", *form).stdout
    assert [part for part in ("kafka.sasl.password", "(set)", "lu") if part not in output] == []
    assert "hush" not in output
    code, said, errors = run_here("config", "validate")
    assert (code, "4 given" in said, errors) == (ExitCode.OK, True, "")


def test_validate_names_every_problem_in_a_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_variables(monkeypatch, {"FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush"})
    message = message_of(ExitCode.CONFIGURATION, "config", "validate", "--set", "topics.raw=unique")
    _, *problems = message.splitlines()
    assert len(problems) == 2
    assert "topics.unique" in problems[0]
    assert "kafka.sasl.password" in problems[1]
    assert "hush" not in message


def test_reference_brings_the_tables_of_a_page_up_to_date() -> None:
    page = Path("page.md")
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    assert run_here("config", "reference", "--update", str(page)).returncode == ExitCode.OK
    tables = run_here("config", "reference").stdout.strip()
    assert page.read_text("utf-8") == f"before\n{BEGIN}\n\n{tables}\n\n{END}\nafter\n"
