"""Writes the manifests that follow from other files of the project: ``make manifests``.

 - ``topics/topics.yaml``: Strimzi's KafkaTopics, of the plans by which ``firstseen topics create``
   makes topics;
 - ``components/monitoring/prometheusrule.yaml``, and ``files/rules.yaml`` of the Helm chart: the
   rules of ``deploy/prometheus``;
 - ``rendered/*.yaml``: what ``kubectl kustomize`` makes of the kustomizations, for those who do
   not have it. Where there is no kubectl, they stay as they are.

Tests hold what is there to what would be written.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from streams.settings.settings import Settings
from streams.topics.plans import topic_plans

HERE: Final = Path(__file__).resolve().parent
RULES: Final = HERE.parent / "prometheus"
CHART: Final = HERE.parent / "helm" / "firstseen"

PARTITIONS: Final = 6
"""Shards of the index, and so the maximum of workers that share the work. More can follow."""
REPLICAS: Final = 3
"""Copies of each partition, as many as a cluster for production has brokers at least."""

RENDERED: Final = ("base", "overlays/example", "overlays/scaled", "topics")
"""The kustomizations that are rendered."""

_HEADER: Final = "# Written by make manifests from {}.\n"
_LABELS: Final = {"app.kubernetes.io/name": "firstseen"}
_WIDTH: Final = 100


def kafka_topics() -> list[dict[str, Any]]:
    """Return a KafkaTopic for each topic of the default settings.

    The times and sizes are texts: Kubernetes would take the largest of them for an inexact number.
    """
    return [
        {
            "apiVersion": "kafka.strimzi.io/v1",
            "kind": "KafkaTopic",
            "metadata": {"name": plan.name, "labels": {**_LABELS, "strimzi.io/cluster": "kafka"}},
            "spec": {
                "partitions": plan.partitions,
                "replicas": REPLICAS,
                "config": plan.config_for(REPLICAS),
            },
        }
        for plan in topic_plans(Settings(), PARTITIONS)
    ]


def rule_groups(directory: Path = RULES) -> list[dict[str, Any]]:
    """Return the groups of all rule files of Prometheus, in the order of their names.

    Raises ``FileNotFoundError`` where there are none.
    """
    files = sorted(directory.glob("*.rules.yml"))
    if not files:
        raise FileNotFoundError(f"no rules in {directory}: *.rules.yml")
    return [group for file in files for group in yaml.safe_load(file.read_text("utf-8"))["groups"]]


def prometheus_rule() -> dict[str, Any]:
    """Return the PrometheusRule with all of our rules."""
    labels = {**_LABELS, "app.kubernetes.io/component": "worker"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "firstseen", "labels": labels},
        "spec": {"groups": rule_groups()},
    }


def manifests() -> Iterator[tuple[Path, str]]:
    """Yield the files and what each must contain."""
    yield (
        HERE / "topics" / "topics.yaml",
        _text("streams/topics/plans.py and the default settings", kafka_topics()),
    )
    yield (
        HERE / "components" / "monitoring" / "prometheusrule.yaml",
        _text("deploy/prometheus/*.rules.yml", [prometheus_rule()]),
    )
    yield (
        CHART / "files" / "rules.yaml",
        _text("deploy/prometheus/*.rules.yml", [{"groups": rule_groups()}]),
    )


def render(directory: Path) -> str | None:
    """Return what Kustomize makes of a directory; None where there is no kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        return None
    run = subprocess.run(  # noqa: S603 - our own directories
        [kubectl, "kustomize", str(directory)], capture_output=True, text=True, check=True
    )
    return _HEADER.format(f"{directory.relative_to(HERE)} by kubectl kustomize") + run.stdout


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as such."""


def _lines(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _lines)


def _text(source: str, content: Sequence[Mapping[str, Any]]) -> str:
    body = yaml.dump_all(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return _HEADER.format(source) + body


if __name__ == "__main__":
    for path, text in manifests():
        path.write_text(text, "utf-8")
        print(f"written: {path.relative_to(HERE.parent)}")
    for built in RENDERED:
        rendered = render(HERE / built)
        if rendered is not None:
            (HERE / "rendered" / f"{Path(built).name}.yaml").write_text(rendered, "utf-8")
            print(f"written: rendered/{Path(built).name}.yaml")
