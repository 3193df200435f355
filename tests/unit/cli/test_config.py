"""`firstseen config` and the options that all commands share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.errors import ExitCode
from streams.settings.reference import BEGIN, END
from streams.settings.setting_fields import setting_fields
from tests.unit.cli.running import firstseen, message_of

SECURE = {
    "FIRSTSEEN_KAFKA__SECURITY_PROTOCOL": "SASL_SSL",
    "FIRSTSEEN_KAFKA__SASL_MECHANISM": "PLAIN",
    "FIRSTSEEN_KAFKA__SASL_USERNAME": "lu",
    "FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush",
}


def test_show_has_every_setting_and_its_origin(tmp_path: Path) -> None:
    """Given settings from each source, when shown as JSON, then each setting is there with its
    value and where it was given, and those of the index with what the profile has.
    """
    config = tmp_path / "firstseen.toml"
    config.write_text("[batch]\ndocuments = 7\n")

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


def test_files_named_in_the_environment(tmp_path: Path) -> None:
    """Given the files of both kinds by variables, then they are read; a flag names another."""
    (by_variable := tmp_path / "a.toml").write_text('application_id = "variable"\n')
    (by_flag := tmp_path / "b.toml").write_text('application_id = "flag"\n')
    (properties := tmp_path / "c.properties").write_text("bootstrap.servers=p:1\n")
    environ = {
        "FIRSTSEEN_CONFIG": str(by_variable),
        "FIRSTSEEN_KAFKA_CONFIG": str(properties),
    }

    shown = json.loads(firstseen("config", "show", "--json", environ=environ).stdout)["settings"]
    other = firstseen("config", "show", "--json", "--config", str(by_flag), environ=environ)

    assert shown["application_id"]["value"] == "variable"
    assert shown["brokers"]["value"] == "p:1"
    assert json.loads(other.stdout)["settings"]["application_id"]["value"] == "flag"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_secrets_are_not_shown(form: list[str]) -> None:
    """Given a password, when settings are shown in either form, then it says that it is set."""
    output = firstseen("config", "show", *form, environ=SECURE).stdout

    assert "kafka.sasl.password" in output
    assert "(set)" in output
    assert "hush" not in output
    assert "lu" in output


def test_a_valid_configuration() -> None:
    """Given settings that can be, then validate says so."""
    result = firstseen("config", "validate", environ=SECURE)

    assert result.returncode == ExitCode.OK
    assert "4 given" in result.stdout
    assert result.stderr == ""


def test_an_invalid_configuration() -> None:
    """Given several mistakes, then validate ends with 78 and all of them, secrets masked."""
    result = firstseen(
        *("config", "validate", "--set", "topics.raw=unique", "--set", "bacth.documents=5"),
        environ={"FIRSTSEEN_BROKER": "x", "FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush"},
    )

    assert result.returncode == ExitCode.CONFIGURATION
    assert result.stdout == ""
    _, *problems = result.stderr.splitlines()
    assert len(problems) == 2
    assert "batch.documents" in problems[0]
    assert "FIRSTSEEN_BROKERS" in problems[1]
    assert "hush" not in result.stderr


def test_rules_are_checked_when_all_names_are_known() -> None:
    """Given a password without SASL, and a topic twice, then both rules speak."""
    result = firstseen(
        *("config", "validate", "--set", "topics.raw=unique"),
        environ={"FIRSTSEEN_KAFKA__SASL_PASSWORD": "hush"},
    )

    assert result.returncode == ExitCode.CONFIGURATION
    assert "topics.unique" in result.stderr
    assert "kafka.sasl.password" in result.stderr


def test_every_command_with_settings_refuses_wrong_ones() -> None:
    """Given a wrong setting, then a command that needs settings does not begin."""
    message = message_of(ExitCode.CONFIGURATION, "topics", "check", "--application-id", "a b")
    for part in ("application_id", "'a b'", "--application-id"):
        assert part in message


def test_reference_brings_a_page_up_to_date(tmp_path: Path) -> None:
    """Given a page with old tables, when updated, then it has today's, and its text is kept."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    assert firstseen("config", "reference", "--update", str(page)).returncode == ExitCode.OK

    text = page.read_text("utf-8")
    tables = firstseen("config", "reference").stdout.strip()
    assert text == f"before\n{BEGIN}\n\n{tables}\n\n{END}\nafter\n"


def test_reference_leaves_other_pages_alone(tmp_path: Path) -> None:
    """Given a page without the marks, then it is not written to."""
    (page := tmp_path / "page.md").write_text("text\n")

    result = firstseen("config", "reference", "--update", str(page))

    assert result.returncode == ExitCode.USAGE
    assert "--update" in result.stderr
    assert page.read_text() == "text\n"


def test_version_names_the_parts() -> None:
    """Given version --json, then it has Firstseen and what it runs on."""
    versions = json.loads(firstseen("version", "--json").stdout)

    assert {"firstseen", "faust-streaming", "librdkafka", "python"} <= set(versions)
    assert all(versions.values())
