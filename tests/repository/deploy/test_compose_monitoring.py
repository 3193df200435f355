"""What Compose mounts into Prometheus and Grafana, held to the names that containers have there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from streams.settings.settings import Settings
from tests.repository.deploy.shipped_files import services
from tests.repository.source_tree import ROOT


def test_mounted_directories_are_there() -> None:
    mounts = [mount for each in services().values() for mount in each.get("volumes", [])]
    sources = [mount.partition(":")[0] for mount in mounts if mount.startswith(".")]
    assert [source for source in sources if not (ROOT / source).is_dir()] == []


def mounted(service: str, target: str) -> Path:
    """What lies on a path of a container, in the repository."""
    for mount in services()[service]["volumes"]:
        source, inside, *_ = mount.split(":")
        if source.startswith(".") and Path(target).is_relative_to(inside):
            found: Path = ROOT / source / Path(target).relative_to(inside)
            return found
    raise AssertionError(f"nothing of the repository is mounted on {target}")


def test_prometheus_finds_its_files_and_the_worker() -> None:
    options = dict(
        option.removeprefix("--").split("=", 1) for option in services()["prometheus"]["command"]
    )
    path = mounted("prometheus", options["config.file"])
    content: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    assert any(list(path.parent.glob(pattern)) for pattern in content["rule_files"])
    targets = [
        target
        for job in content["scrape_configs"]
        for group in job.get("static_configs", [])
        for target in group["targets"]
    ]
    assert f"worker:{Settings().web.port}" in targets
    assert f"prometheus-data:{options['storage.tsdb.path']}" in services()["prometheus"]["volumes"]


def test_grafana_finds_its_files_and_prometheus() -> None:
    provisioning = mounted("grafana", "/etc/grafana/provisioning")
    sources = [
        source
        for path in (provisioning / "datasources").glob("*.y*ml")
        for source in yaml.safe_load(path.read_text("utf-8"))["datasources"]
    ]
    (port,) = services()["prometheus"]["ports"]
    assert [source["url"] for source in sources] == [f"http://prometheus:{port.split(':')[-1]}"]
    (provider,) = [
        provider
        for path in (provisioning / "dashboards").glob("*.y*ml")
        for provider in yaml.safe_load(path.read_text("utf-8"))["providers"]
    ]
    assert list(mounted("grafana", provider["options"]["path"]).glob("*.json"))
