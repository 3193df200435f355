"""The manifests that follow from other files of the project are what would be written today."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.repository.deploy.rendered import by_name, rendered
from tests.repository.deploy.shipped_files import KUBERNETES, documents
from tests.repository.source_tree import ROOT
from tests.rigs.brokers.broker import Broker
from tests.unit.cli.running import firstseen

GENERATED = runpy.run_path(str(KUBERNETES / "generate.py"))


@pytest.mark.parametrize(
    ("path", "text"),
    list(GENERATED["manifests"]()),
    ids=lambda value: Path(str(value)[:200]).stem[:20],
)
def test_files_are_up_to_date(path: Path, text: str) -> None:
    assert path.read_text("utf-8") == text, "run make manifests"


def test_alerts_are_those_of_prometheus() -> None:
    files = sorted((ROOT / "deploy" / "prometheus").glob("*.rules.yml"))
    written = [group for file in files for group in documents(file)[0]["groups"]]
    built = by_name(rendered("example"))["PrometheusRule", "firstseen"]
    assert built["spec"]["groups"] == written
    assert any("alert" in rule for group in written for rule in group["rules"])


def test_topics_are_those_that_the_command_makes(kafka_broker: Broker) -> None:
    name = kafka_broker.unique("app")
    renamed = {"raw": "raw", "unique": "unique", "duplicates": "dup", "dead_letters": "dlq"}
    flags = [f"--set=topics.{setting}={name}.{topic}" for setting, topic in renamed.items()]

    run = firstseen(
        *("topics", "create", "--json", "--partitions", str(GENERATED["PARTITIONS"])),
        *("--broker", kafka_broker.bootstrap_servers, "--application-id", name, *flags),
    )

    made: list[dict[str, Any]] = json.loads(run.stdout)["topics"]
    asked = GENERATED["kafka_topics"]()
    # With three copies two must have a record; the broker here can make one copy.
    needed = [each["spec"]["config"].pop("min.insync.replicas", None) for each in asked]
    assert [(each["spec"]["partitions"], each["spec"]["config"]) for each in asked] == [
        (each["partitions"], each["config"]) for each in made
    ]
    assert needed == [None, "2", "2", "2", "2", None, "2"]
    assert [each["metadata"]["name"] for each in asked] == [
        "raw-documents",
        "unique",
        "duplicate-of",
        "dlq.raw-documents",
        "firstseen.log",
        "firstseen.reports",
        "firstseen.changelog",
    ]
    assert by_name(rendered("topics")).keys() == {
        ("KafkaTopic", each["metadata"]["name"]) for each in asked
    }
