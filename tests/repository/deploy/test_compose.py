"""docker-compose.yml: the images, ports, mounts, commands and variables that it names are ours."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from streams.settings.loader import load_settings
from streams.settings.settings import GIB, MIB, Settings
from tests.repository.deploy.shipped_files import (
    IMAGE,
    OURS,
    compose,
    image_environment,
    parse_command,
    services,
    version,
)
from tests.repository.source_tree import ROOT

OUR_SERVICES = sorted(name for name, each in services().items() if "build" in each)
SERVICES = sorted(services())
POM = "{http://maven.apache.org/POM/4.0.0}"


def environment(service: str) -> dict[str, str]:
    """What a service finds in its environment, as far as it is ours."""
    given = {**image_environment(), **services()[service].get("environment", {})}
    return {name: value for name, value in given.items() if name.startswith(OURS)}


def arguments(service: str) -> list[str]:
    """The arguments of ``firstseen`` in a service."""
    content = services()[service]
    words: list[str] = [*content.get("entrypoint", ["firstseen"]), *content["command"]]
    assert words[0] == "firstseen"
    return words[1:]


def megabytes(limit: str) -> int:
    """The bytes of a memory limit."""
    number, unit = re.fullmatch(r"(\d+)([mg])", limit).groups()  # type: ignore[union-attr] # or it fails
    return int(number) * (GIB if unit == "g" else MIB)


def test_it_is_a_compose_file_of_today() -> None:
    assert compose()["name"] == "firstseen"
    assert "version" not in compose()
    assert OUR_SERVICES == ["cli", "load", "topics-init", "worker"]


@pytest.mark.parametrize("service", SERVICES)
def test_images_are_pinned(service: str) -> None:
    name, _, tag = services()[service]["image"].rpartition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag)
    if "build" in services()[service]:
        assert (name, tag) == (IMAGE, version())
    if name == "apache/kafka":
        pom = ET.parse(ROOT / "deploy" / "kafka" / "pom.xml").getroot()  # noqa: S314 - our own file
        assert pom.findtext(f"{POM}properties/{POM}kafka.version") == tag


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_of_this_machine_alone(service: str) -> None:
    for port in services()[service].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)


@pytest.mark.parametrize("service", SERVICES)
def test_mounts_are_volumes_or_read_only(service: str) -> None:
    for mount in services()[service].get("volumes", []):
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert rest.endswith(":ro")
        else:
            assert source in compose()["volumes"]


def test_no_volume_is_left_over() -> None:
    mounts = [m.partition(":")[0] for each in services().values() for m in each.get("volumes", [])]
    assert sorted(compose()["volumes"]) == sorted(m for m in mounts if not m.startswith("."))


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_is_without_a_bound(service: str) -> None:
    content = services()[service]
    limits = content["deploy"]["resources"]["limits"]
    assert megabytes(limits["memory"]) <= 2 * GIB
    assert float(limits["cpus"]) <= 2
    assert content["logging"]["options"].keys() == {"max-size", "max-file"}
    assert re.fullmatch(r"\d+s", content["stop_grace_period"])
    assert content["restart"] in {"unless-stopped", "no"}
    assert content["cap_drop"] == ["ALL"]
    assert content["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("service", SERVICES)
def test_dependencies_can_be_met(service: str) -> None:
    for name, wait in services()[service].get("depends_on", {}).items():
        other = services()[name]
        assert "profiles" not in other
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in other
        else:
            assert wait["condition"] == "service_completed_successfully"
            assert other["restart"] == "no"


@pytest.mark.parametrize("service", sorted(set(OUR_SERVICES) - {"cli"}))
def test_commands_are_those_of_the_command_line(service: str) -> None:
    expected = {"topics-init": "topics create", "worker": "worker", "load": "load"}
    assert parse_command(arguments(service)).command_path == f"firstseen {expected[service]}"


@pytest.mark.parametrize("service", OUR_SERVICES)
def test_variables_are_settings(service: str) -> None:
    settings = load_settings(environ=environment(service)).settings
    advertised = services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"//{settings.brokers}" in advertised
    assert services()[service]["read_only"] is True
    assert services()[service]["tmpfs"] == ["/tmp:size=64m"]  # noqa: S108 - in a container


def test_the_worker_is_reached_where_it_listens() -> None:
    worker = services()["worker"]
    settings = load_settings(environ=environment("worker")).settings
    assert worker["ports"] == [f"127.0.0.1:{settings.web.port}:{settings.web.port}"]
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    kind, program, *check = worker["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "firstseen")
    assert parse_command(check).command_path == "firstseen health"
    assert worker["volumes"] == [f"worker-state:{settings.state_dir}"]


def test_documents_are_not_for_everybody() -> None:
    web = load_settings(environ=environment("worker")).settings.web
    assert web.has_token
    assert web.open_monitoring
    assert "${FIRSTSEEN_WEB__TOKEN:-" in (ROOT / "docker-compose.yml").read_text("utf-8")


def test_the_limits_leave_room() -> None:
    settings = load_settings(environ=environment("worker")).settings
    memory = services()["worker"]["deploy"]["resources"]["limits"]["memory"]
    assert 3 * settings.block_cache_bytes <= megabytes(memory)


def test_the_worker_gets_the_time_that_it_takes_to_stop() -> None:
    grace = int(services()["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace >= 1.5 * Settings().send_timeout_seconds
