"""The Helm chart: it makes the same objects as Kustomize, and refuses unknown values."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.settings.loader import load_settings
from tests.repository.deploy.shipped_files import TOOL_SECONDS, Manifest, by_name, project
from tests.repository.source_tree import ROOT

CHART = ROOT / "deploy" / "helm" / "firstseen"
HELM = ROOT / ".venv-tools" / "bin" / "helm"
OF_HELM = {"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"}
OF_HELM |= {"checksum/config"}

EXAMPLE = {
    "brokers": "kafka-1.example.com:9093,kafka-2.example.com:9093",
    "replicas": 2,
    "settings": {"block_cache_bytes": 1073741824},
    "image": {"repository": "registry.example.com/firstseen"},
    "topics": {"create": True},
    "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}},
    "persistence": {"size": "100Gi"},
    "monitoring": {"serviceMonitor": True, "rules": True},
    "networkPolicy": {"kafka": {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}},
}
"""The values that make ``deploy/kubernetes/overlays/example``."""


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm, or skip the test if it is missing."""
    path = HELM if HELM.exists() else shutil.which("helm")
    if path is None:
        pytest.skip("no helm, which Debian lacks: put one on PATH, or run make helm with Go 1.25")
    return subprocess.run(
        [path, *arguments], capture_output=True, text=True, timeout=TOOL_SECONDS, check=False
    )


def template(
    values: Mapping[str, Any], tmp_path: Path, release: str = "firstseen"
) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)), "utf-8")
    return helm("template", release, CHART, "--kube-version", "1.33.0", "--values", file)


def objects(run: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], Manifest]:
    assert run.returncode == 0, run.stderr
    found = [each for each in yaml.safe_load_all(run.stdout) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def plain(part: Any) -> Any:  # noqa: ANN401 - what YAML may be
    """Return a manifest without what Helm adds, without namespaces and empty maps."""
    if isinstance(part, list):
        return [plain(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {
        name: plain(value)
        for name, value in part.items()
        if name not in OF_HELM and name != "namespace"
    }
    return {name: value for name, value in kept.items() if name != "annotations" or value}


@pytest.mark.parametrize(("values", "kustomization"), [({}, "base"), (EXAMPLE, "example")])
def test_the_chart_makes_what_kustomize_makes(
    values: Mapping[str, Any], kustomization: str, tmp_path: Path
) -> None:
    made = objects(template(values, tmp_path))
    assert plain(made) == plain(by_name(kustomization))


def test_the_values_of_the_documentation_are_values_of_the_chart(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text("utf-8")
    (written,) = re.findall(r"```yaml\n(# values.yaml.*?)```", page, re.DOTALL)
    made = objects(template(yaml.safe_load(written), tmp_path))
    assert made["StatefulSet", "firstseen"]["spec"]["replicas"] == 4
    load_settings(environ=made["ConfigMap", "firstseen"]["data"])


def test_releases_do_not_select_the_workers_of_each_other(tmp_path: Path) -> None:
    service = objects(template({}, tmp_path, "news"))["Service", "news-firstseen"]
    news = service["spec"]["selector"]
    assert news["app.kubernetes.io/instance"] == "news"
    assert news["app.kubernetes.io/name"] == "firstseen"  # the job of the alerts


def test_settings_are_those_of_a_worker_and_roll_it(tmp_path: Path) -> None:
    settings = {"profile": "quick", "index.window": "30d", "batch.documents": 200}
    settings |= {"kafka.client.id": "news"}
    without_secret = {"standbys": 1, "secret": {"name": ""}, "replicas": None}
    made = objects(template({**without_secret, "settings": settings}, tmp_path))
    before = objects(template(without_secret, tmp_path))["StatefulSet", "firstseen"]
    worker = made["StatefulSet", "firstseen"]

    loaded = load_settings(environ=made["ConfigMap", "firstseen"]["data"]).settings

    assert (loaded.profile, loaded.standbys, loaded.batch.documents) == ("quick", 1, 200)
    assert loaded.index.window == "30d"
    assert loaded.kafka["client.id"] == "news"
    assert "FIRSTSEEN_KAFKA_CONFIG" not in made["ConfigMap", "firstseen"]["data"]
    assert "replicas" not in worker["spec"]
    pod = worker["spec"]["template"]
    assert "secret" not in str(pod)
    assert pod["metadata"]["annotations"] != before["spec"]["template"]["metadata"]["annotations"]


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert chart["version"] == chart["appVersion"] == project()["version"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replica": 2}, "replica"),
        ({"standbys": 2}, "standbys"),
        ({"settings": {"Profile": "wide"}}, "Profile"),
        ({"settings": {"brokers": "kafka:9092"}}, "settings.brokers: this chart sets it"),
        # In the pod's own variables, which would hide it:
        ({"settings": {"web.url": "https://a.example/"}}, "settings.web.url: this chart sets it"),
    ],
)
def test_values_that_it_does_not_know_are_refused(
    values: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    run = template(values, tmp_path)
    assert run.returncode != 0
    assert message in run.stderr
