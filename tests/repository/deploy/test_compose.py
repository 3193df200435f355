"""docker-compose.yml: its images, ports, mounts, commands and variables exist here."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.settings.loader import load_settings
from streams.settings.settings import GIB, MIB, Settings
from tests.repository.deploy.shipped_files import (
    IMAGE,
    OURS,
    compose,
    image_environment,
    parse_command,
    project,
    services,
)
from tests.repository.source_tree import ROOT

WORKER = services()["worker"]
MOUNTS: list[tuple[str, str]] = [
    (name, mount)
    for name, each in services().items()
    for mount in each.get("volumes", [])
    if isinstance(mount, str)
]
POM = "{http://maven.apache.org/POM/4.0.0}"


@pytest.fixture(params=sorted(services()))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    return services()[request.param]


def environment(service: str) -> dict[str, str]:
    """Return the environment variables of a service that belong to Firstseen."""
    given = {**image_environment(), **services()[service].get("environment", {})}
    return {name: value for name, value in given.items() if name.startswith(OURS)}


def arguments(service: str) -> list[str]:
    content = services()[service]
    words: list[str] = [*content.get("entrypoint", ["firstseen"]), *content["command"]]
    assert words[0] == "firstseen"
    return words[1:]


def memory_limit(service: dict[str, Any]) -> int:
    limit = re.fullmatch(r"(\d+)([mg])", service["deploy"]["resources"]["limits"]["memory"])
    assert limit is not None
    return int(limit[1]) * (GIB if limit[2] == "g" else MIB)


def test_images_are_pinned_to_the_releases_of_the_project(service: dict[str, Any]) -> None:
    name, _, tag = service["image"].rpartition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag)
    if "build" in service:
        assert (name, tag) == (IMAGE, project()["version"])
    if name == "apache/kafka":
        pom = ET.parse(ROOT / "deploy" / "kafka" / "pom.xml").getroot()  # noqa: S314 - our own file
        assert pom.findtext(f"{POM}properties/{POM}kafka.version") == tag


def test_ports_are_published_on_the_loopback_address_alone(service: dict[str, Any]) -> None:
    for port in service.get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)


def test_mounts_are_directories_for_reading_or_volumes_of_one_service() -> None:
    volumes = []
    for _, mount in MOUNTS:
        source, _, rest = mount.partition(":")
        if source.startswith("."):
            assert rest.endswith(":ro")
            assert (ROOT / source).is_dir()
        else:
            volumes.append(source)
    assert sorted(compose()["volumes"]) == sorted(volumes)


def test_every_service_has_limits_and_no_rights(service: dict[str, Any]) -> None:
    assert memory_limit(service) <= 2 * GIB
    assert float(service["deploy"]["resources"]["limits"]["cpus"]) <= 2
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}
    assert re.fullmatch(r"\d+s", service["stop_grace_period"])
    assert service["restart"] in {"unless-stopped", "no"}
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_dependencies_can_be_met(service: dict[str, Any]) -> None:
    for name, wait in service.get("depends_on", {}).items():
        other = services()[name]
        assert "profiles" not in other
        if wait["condition"] == "service_healthy":
            assert "healthcheck" in other
        else:
            assert wait["condition"] == "service_completed_successfully"
            assert other["restart"] == "no"


@pytest.mark.parametrize(
    ("service", "command"),
    [("topics-init", "topics create"), ("worker", "worker"), ("load", "load")],
)
def test_commands_are_those_of_the_command_line(service: str, command: str) -> None:
    assert parse_command(arguments(service)).command_path == f"firstseen {command}"


@pytest.mark.parametrize("name", ["cli", "load", "topics-init", "worker"])
def test_variables_of_our_services_are_settings(name: str) -> None:
    settings = load_settings(environ=environment(name)).settings
    advertised = services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"//{settings.brokers}" in advertised
    assert services()[name]["read_only"] is True
    assert services()[name]["tmpfs"] == ["/tmp:size=64m"]  # noqa: S108 - in a container


def test_the_worker_is_reached_where_it_listens_and_has_time_and_memory() -> None:
    settings = load_settings(environ=environment("worker")).settings
    web = settings.web
    assert WORKER["ports"] == [f"127.0.0.1:{web.port}:{web.port}"]
    assert (web.host, web.has_token, web.open_monitoring) == ("0.0.0.0", True, True)  # noqa: S104 - in a container
    assert "${FIRSTSEEN_WEB__TOKEN:-" in (ROOT / "docker-compose.yml").read_text("utf-8")
    kind, program, *check = WORKER["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "firstseen")
    assert parse_command(check).command_path == "firstseen health"
    assert WORKER["volumes"] == [f"worker-state:{settings.state_dir}"]
    assert 3 * settings.block_cache_bytes <= memory_limit(WORKER)
    grace = int(WORKER["stop_grace_period"].removesuffix("s"))
    assert grace >= 1.5 * Settings().send_timeout_seconds


# ---- Prometheus and Grafana


def mounted(service: str, target: str) -> Path:
    """Return the file of the repository that is mounted at a path of a container."""
    for name, mount in MOUNTS:
        source, inside, *_ = mount.split(":")
        if name == service and source.startswith(".") and Path(target).is_relative_to(inside):
            return ROOT / source / Path(target).relative_to(inside)
    raise AssertionError(f"nothing of the repository is mounted on {target}")


def test_prometheus_and_grafana_find_their_files_and_each_other() -> None:
    prometheus = services()["prometheus"]
    options = dict(each.removeprefix("--").split("=", 1) for each in prometheus["command"])
    file = mounted("prometheus", options["config.file"])
    content = yaml.safe_load(file.read_text("utf-8"))
    assert any(list(file.parent.glob(name)) for name in content["rule_files"])
    (job,) = content["scrape_configs"]
    assert job["static_configs"] == [{"targets": [f"worker:{Settings().web.port}"]}]
    assert f"prometheus-data:{options['storage.tsdb.path']}" in prometheus["volumes"]

    provisioning = mounted("grafana", "/etc/grafana/provisioning")
    (provider_file,) = (provisioning / "dashboards").iterdir()
    (source_file,) = (provisioning / "datasources").iterdir()
    (provider,) = yaml.safe_load(provider_file.read_text("utf-8"))["providers"]
    (source,) = yaml.safe_load(source_file.read_text("utf-8"))["datasources"]
    (port,) = prometheus["ports"]
    assert list(mounted("grafana", provider["options"]["path"]).glob("*.json"))
    assert source["url"] == f"http://prometheus:{port.split(':')[-1]}"
    assert source["jsonData"]["timeInterval"] == content["global"]["scrape_interval"]
