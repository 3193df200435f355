"""deploy/kubernetes: its objects are valid, up to date, and fit the worker and the topics."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.settings.loader import load_settings
from streams.settings.settings import GIB, MIB, Settings
from tests.repository.deploy.shipped_files import (
    IMAGE,
    KUBERNETES,
    OURS,
    Manifest,
    by_name,
    of_image,
    parse_command,
    project,
    rendered,
    run_tool,
)
from tests.repository.monitoring.shipped_monitoring import RULE_FILES
from tests.rigs.brokers.broker import Broker
from tests.rigs.required_tools import give_up
from tests.unit.cli.running import firstseen

GENERATED = runpy.run_path(str(KUBERNETES / "generate.py"))
BUILDS = [Path(directory).name for directory in GENERATED["RENDERED"]]
LABELS = {"app.kubernetes.io/name": "firstseen", "app.kubernetes.io/component": "worker"}
CUSTOM_FIELDS = {
    ("kafka.strimzi.io/v1", "KafkaTopic"): "partitions replicas config topicName",
    ("monitoring.coreos.com/v1", "ServiceMonitor"): (
        "selector matchLabels endpoints port path interval scrapeTimeout jobLabel"
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): (
        "groups name rules interval labels expr record alert for keep_firing_for annotations"
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): (
        "scaleTargetRef name apiVersion kind triggers type metadata bootstrapServers consumerGroup "
        "topic lagThreshold activationLagThreshold offsetResetPolicy allowIdleConsumers "
        "scaleToZeroOnInvalidOffset authenticationRef minReplicaCount maxReplicaCount "
        "pollingInterval cooldownPeriod advanced horizontalPodAutoscalerConfig behavior scaleUp "
        "scaleDown stabilizationWindowSeconds policies value periodSeconds selectPolicy"
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): "secretTargetRef parameter name key",
}
"""The fields of custom resources that we use; Kubernetes itself does not know them."""
FREE = frozenset({"config", "labels", "annotations", "matchLabels"})  # their keys are ours
WRITTEN_FILES = [
    path
    for path in sorted(KUBERNETES.rglob("*.yaml"))
    if path.name != "kustomization.yaml" and path.parent.name != "rendered"
]


class Workers:
    """The objects of a kustomization, and facts in the objects around the workers."""

    def __init__(self, name: str) -> None:
        self.objects: Mapping[tuple[str, str], Manifest] = by_name(name)
        self.set: Manifest = self.spec("StatefulSet")
        self.pod: dict[str, Any] = self.set["template"]["spec"]
        self.container: dict[str, Any]
        (self.container,) = self.pod["containers"]
        self.data: dict[str, str] = self.objects["ConfigMap", "firstseen"]["data"]

    def spec(self, kind: str, name: str = "firstseen") -> Manifest:
        return dict(self.objects[kind, name]["spec"])

    @property
    def settings(self) -> Settings:
        return load_settings(environ=self.data).settings


@pytest.fixture(params=["base", "example"])
def workers(request: pytest.FixtureRequest) -> Workers:
    return Workers(str(request.param))


@pytest.mark.parametrize(
    ("path", "text"),
    list(GENERATED["manifests"]()),
    ids=lambda value: Path(str(value)[:200]).stem[:20],
)
def test_generated_files_are_up_to_date(path: Path, text: str) -> None:
    assert path.read_text("utf-8") == text, "run make manifests"


@pytest.mark.parametrize("directory", GENERATED["RENDERED"])
def test_rendered_files_are_what_kustomize_makes(directory: str) -> None:
    text = GENERATED["render"](KUBERNETES / directory)
    if text is None:
        give_up("no kubectl (Debian: apt-get install kubernetes-client)")
    file = KUBERNETES / "rendered" / f"{Path(directory).name}.yaml"
    assert file.read_text("utf-8") == text, "run make manifests"


def test_every_file_belongs_to_the_kustomization_beside_it() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        named = yaml.safe_load(path.read_text("utf-8")).get("resources", [])
        files = {each.name for each in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if "/" not in name}, path


def test_no_object_is_there_twice_or_has_a_namespace() -> None:
    found = [each for path in WRITTEN_FILES for each in yaml.safe_load_all(path.read_text("utf-8"))]
    assert len(found) == len({(each["kind"], each["metadata"]["name"]) for each in found})
    assert [each for each in found if "namespace" in each["metadata"]] == []


def test_core_objects_are_valid(tmp_path: Path) -> None:
    core = [
        each
        for name in BUILDS
        for each in rendered(name)
        if (each["apiVersion"], each["kind"]) not in CUSTOM_FIELDS
    ]
    file = tmp_path / "built.yaml"
    file.write_text(yaml.safe_dump_all(core), "utf-8")
    run = run_tool("kubernetes-validate", "--strict", file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (run.stdout + run.stderr).count(" passed ") == len(core)


def keys_below(content: object) -> set[str]:
    if isinstance(content, list):
        return {key for each in content for key in keys_below(each)}
    if not isinstance(content, dict):
        return set()
    return {*content, *(key for k, v in content.items() if k not in FREE for key in keys_below(v))}


@pytest.mark.parametrize("name", BUILDS)
def test_custom_objects_have_only_fields_of_their_makers(name: str) -> None:
    for each in rendered(name):
        known = CUSTOM_FIELDS.get((each["apiVersion"], each["kind"]))
        if known is not None:
            assert each.keys() == {"apiVersion", "kind", "metadata", "spec"}
            assert keys_below(each["spec"]) <= set(known.split())


def test_alerts_are_those_of_prometheus() -> None:
    files = [yaml.safe_load(file.read_text("utf-8")) for file in RULE_FILES]
    written = [group for file in files for group in file["groups"]]
    assert by_name("example")["PrometheusRule", "firstseen"]["spec"]["groups"] == written
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
    # With three copies, two must have a record; the broker here can only make one copy.
    needed = [each["spec"]["config"].pop("min.insync.replicas", None) for each in asked]
    assert [(each["spec"]["partitions"], each["spec"]["config"]) for each in asked] == [
        (each["partitions"], each["config"]) for each in made
    ]
    assert needed == [None, "2", "2", "2", "2", None, "2"]
    names = "raw-documents unique duplicate-of dlq.raw-documents"
    names += " firstseen.log firstseen.reports firstseen.changelog"
    assert [each["metadata"]["name"] for each in asked] == names.split()
    assert by_name("topics").keys() == {("KafkaTopic", each) for each in names.split()}


def test_topics_are_made_before_a_worker_starts_with_its_settings() -> None:
    example = Workers("example")
    (container,) = example.pod["initContainers"]
    context = parse_command(container["args"])
    assert context.command_path == "firstseen topics create"
    assert context.params["partitions"] == GENERATED["PARTITIONS"]
    for same in ("image", "envFrom", "securityContext"):
        assert container[same] == example.container[same]
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    assert mounts == ["/tmp", "/etc/firstseen/secrets"]  # noqa: S108 - in a container


def test_a_changed_setting_and_image_can_be_applied_again(tmp_path: Path) -> None:
    copy = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, copy)
    overlay = copy / "overlays" / "example" / "kustomization.yaml"
    text = overlay.read_text("utf-8")
    changed = text.replace("newTag: 0.1.0", "newTag: 9.9.9").replace("=1073741824", "=268435456")
    overlay.write_text(changed, "utf-8")
    # Kubernetes allows an update to change only these fields; a changed name is another object.
    mutable = {
        "Job": {"activeDeadlineSeconds", "backoffLimit", "parallelism", "suspend"},
        "StatefulSet": {"template", "replicas", "updateStrategy", "minReadySeconds"},
    }

    def fixed(directory: Path) -> Manifest:
        run = subprocess.run(
            ["kubectl", "kustomize", directory], capture_output=True, text=True, check=True
        )
        objects = list(yaml.safe_load_all(run.stdout))
        names = {(each["kind"], each["metadata"]["name"]): each.get("spec") for each in objects}
        assert ("9.9.9" in run.stdout) == (directory == overlay.parent)
        return {
            str(name): {key: value for key, value in spec.items() if key not in mutable[name[0]]}
            for name, spec in names.items()
            if name[0] in mutable
        }

    if shutil.which("kubectl") is None:
        give_up("no kubectl (Debian: apt-get install kubernetes-client)")
    before, after = fixed(KUBERNETES / "overlays" / "example"), fixed(overlay.parent)
    assert before
    assert {name: after[name] for name in before if name in after} == before


def test_each_pod_names_its_own_page(workers: Workers) -> None:
    environment = {each["name"]: each.get("value") for each in workers.container["env"]}
    host = f"$(POD_NAME).{workers.set['serviceName']}"
    assert environment["FIRSTSEEN_WEB__URL"] == f"http://{host}:{workers.settings.web.port}/"
    assert "POD_NAME" in environment


def test_the_image_is_that_of_the_project(workers: Workers) -> None:
    context = workers.pod["securityContext"]
    name, _, tag = workers.container["image"].rpartition(":")
    assert name in {IMAGE, "registry.example.com/firstseen"}
    assert tag == project()["version"]
    assert parse_command(workers.container["args"]).command_path == "firstseen worker"
    assert of_image("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["fsGroup"] == context["runAsGroup"]


def test_the_pod_has_no_rights_and_no_variable_that_a_worker_refuses(workers: Workers) -> None:
    pod, context = workers.pod, workers.pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert workers.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    account = workers.objects["ServiceAccount", pod["serviceAccountName"]]
    for each in (pod, account):
        assert each["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False  # they would have our prefix
    assert [name for name in workers.data if not name.startswith(OURS)] == []
    assert workers.container["envFrom"] == [{"configMapRef": {"name": "firstseen"}}]


def test_paths_of_the_settings_are_mounted(workers: Workers) -> None:
    mounts = {each["name"]: each["mountPath"] for each in workers.container["volumeMounts"]}
    volumes = {each["name"]: each for each in workers.pod["volumes"]}
    (claim,) = workers.set["volumeClaimTemplates"]
    assert mounts.keys() == volumes.keys() | {claim["metadata"]["name"]}
    assert workers.settings.state_dir.is_absolute()
    assert Path(mounts["state"]) == workers.settings.state_dir
    for variable in ("FIRSTSEEN_KAFKA_CONFIG", "FIRSTSEEN_WEB__TOKEN_FILE"):
        assert Path(workers.data[variable]).parent == Path(mounts["secrets"])
    assert volumes["secrets"]["secret"]["secretName"] == "firstseen"
    assert "emptyDir" in volumes["tmp"]
    assert not [kind for kind, _ in workers.objects if kind == "Secret"]


def test_selectors_find_the_workers(workers: Workers) -> None:
    assert workers.set["template"]["metadata"]["labels"] == LABELS
    assert workers.set["selector"]["matchLabels"] == LABELS
    (spread,) = workers.pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == LABELS
    assert workers.spec("PodDisruptionBudget")["selector"]["matchLabels"] == LABELS
    assert workers.spec("NetworkPolicy")["podSelector"]["matchLabels"] == LABELS
    service = workers.spec("Service", workers.set["serviceName"])
    assert service["selector"] == LABELS
    assert service["clusterIP"] == "None"


def test_ports_are_those_of_the_settings(workers: Workers) -> None:
    settings, container = workers.settings, workers.container
    policy = workers.spec("NetworkPolicy")
    (port,) = container["ports"]
    (service,) = workers.spec("Service")["ports"]
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    assert port["containerPort"] == service["port"] == settings.web.port
    assert port["name"] == service["name"] == service["targetPort"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} == {port["name"]}
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    brokers = {int(broker.rpartition(":")[2]) for broker in settings.brokers.split(",")}
    assert {each["port"] for each in policy["egress"][1]["ports"]} == brokers


def test_probes_and_prometheus_ask_for_the_paths_of_monitoring() -> None:
    example = Workers("example")
    probes = [each for name, each in example.container.items() if name.endswith("Probe")]
    paths = {probe["httpGet"]["path"] for probe in probes}
    paths |= {each["path"] for each in example.spec("ServiceMonitor")["endpoints"]}
    assert paths == {"/healthz", "/readyz", "/metrics"}


def test_a_worker_has_time_and_memory_and_is_disturbed_alone(workers: Workers) -> None:
    container, settings = workers.container, workers.settings
    probes = {name: container[f"{name}Probe"] for name in ("startup", "readiness", "liveness")}
    patience = {k: each["periodSeconds"] * each["failureThreshold"] for k, each in probes.items()}
    assert patience["startup"] >= 300
    assert patience["liveness"] >= 60
    assert all(each["timeoutSeconds"] >= 5 for each in probes.values())
    assert workers.pod["terminationGracePeriodSeconds"] >= 1.5 * settings.send_timeout_seconds
    limit = container["resources"]["limits"]["memory"]
    assert limit == container["resources"]["requests"]["memory"]
    size = int(limit[:-2]) * {"Mi": MIB, "Gi": GIB}[limit[-2:]]
    assert 3 * settings.block_cache_bytes <= size
    budget = workers.spec("PodDisruptionBudget")
    assert budget["maxUnavailable"] == 1
    assert "minAvailable" not in budget


def test_workers_are_not_more_than_shards() -> None:
    partitions = by_name("topics")["KafkaTopic", "raw-documents"]["spec"]["partitions"]
    assert Workers("base").set["replicas"] <= partitions
    assert by_name("scaled")["ScaledObject", "firstseen"]["spec"]["maxReplicaCount"] <= partitions


def test_only_one_kustomization_has_keda_which_scales_our_workers() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text("utf-8"))
        found = [name for name in content.get("components", []) if "keda" in name]
        assert bool(found) == (path.parent.name == "scaled")
    scaled = Workers("scaled")
    stateful, spec = scaled.objects["StatefulSet", "firstseen"], scaled.spec("ScaledObject")
    assert "replicas" not in scaled.set
    assert spec["scaleTargetRef"] == {
        "apiVersion": stateful["apiVersion"],
        "kind": stateful["kind"],
        "name": "firstseen",
    }
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["consumerGroup"] == scaled.settings.application_id
    assert trigger["metadata"]["topic"] == scaled.settings.topics.raw
    assert trigger["metadata"]["bootstrapServers"] == scaled.settings.brokers
    login = scaled.spec("TriggerAuthentication", trigger["authenticationRef"]["name"])
    secret = {each["name"] for each in login["secretTargetRef"]}
    assert secret == {scaled.pod["volumes"][1]["secret"]["secretName"]}


def test_prometheus_finds_the_service() -> None:
    example = Workers("example")
    monitor = example.spec("ServiceMonitor")
    labels = example.objects["Service", "firstseen"]["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["jobLabel"]] == "firstseen"
    ports = {each["name"] for each in example.spec("Service")["ports"]}
    assert {each["port"] for each in monitor["endpoints"]} == ports
