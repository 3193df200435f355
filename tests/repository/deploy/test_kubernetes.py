"""deploy/kubernetes: what it builds is valid, names only what is there, and fits the worker."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from streams.settings.loader import load_settings
from streams.settings.settings import GIB, MIB, Settings
from tests.repository.deploy.custom_resources import SPECS
from tests.repository.deploy.rendered import Manifest, by_name, rendered
from tests.repository.deploy.shipped_files import (
    IMAGE,
    KUBERNETES,
    OURS,
    documents,
    of_image,
    parse_command,
    scalars,
    version,
)
from tests.repository.deploy.shipped_tools import run_tool
from tests.rigs.brokers.broker import Broker
from tests.rigs.required_tools import give_up
from tests.rigs.workers.stream_harness import Stream

GENERATED = runpy.run_path(str(KUBERNETES / "generate.py"))
BUILDS = [Path(directory).name for directory in GENERATED["RENDERED"]]
LABELS = {"app.kubernetes.io/name": "firstseen", "app.kubernetes.io/component": "worker"}


@pytest.fixture(params=BUILDS)
def built(request: pytest.FixtureRequest) -> list[Manifest]:
    """The objects of one kustomization after another."""
    return rendered(str(request.param))


@pytest.fixture(params=["base", "example"])
def workers(request: pytest.FixtureRequest) -> dict[tuple[str, str], Manifest]:
    """The objects around the workers, by kind and name."""
    return by_name(rendered(str(request.param)))


def pod_of(workers: dict[tuple[str, str], Manifest]) -> dict[str, Any]:
    """What a pod of the workers is to be."""
    pod: dict[str, Any] = workers["StatefulSet", "firstseen"]["spec"]["template"]["spec"]
    return pod


def container_of(workers: dict[tuple[str, str], Manifest]) -> dict[str, Any]:
    """The only container of a pod of the workers."""
    (container,) = pod_of(workers)["containers"]
    assert isinstance(container, dict)
    return container


def settings_of(workers: dict[tuple[str, str], Manifest]) -> Settings:
    """The settings that a worker finds in its environment."""
    return load_settings(environ=workers["ConfigMap", "firstseen"]["data"]).settings


def size(quantity: str) -> int:
    """The bytes of a quantity of memory."""
    return int(quantity[:-2]) * {"Mi": MIB, "Gi": GIB}[quantity[-2:]]


def test_every_file_belongs_to_a_kustomization() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        named = yaml.safe_load(path.read_text("utf-8")).get("resources", [])
        files = {each.name for each in path.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if "/" not in name}, path


@pytest.mark.parametrize("directory", GENERATED["RENDERED"])
def test_rendered_files_are_up_to_date(directory: str) -> None:
    text = GENERATED["render"](KUBERNETES / directory)
    if text is None:
        give_up("no kubectl (Debian: apt-get install kubernetes-client)")
    file = KUBERNETES / "rendered" / f"{Path(directory).name}.yaml"
    assert file.read_text("utf-8") == text, "run make manifests"


def test_core_objects_are_valid(tmp_path: Path) -> None:
    core = [
        each
        for name in BUILDS
        for each in rendered(name)
        if (each["apiVersion"], each["kind"]) not in SPECS
    ]
    file = tmp_path / "built.yaml"
    file.write_text(yaml.safe_dump_all(core), "utf-8")
    run = run_tool("kubernetes-validate", "--strict", file)
    assert run.returncode == 0, run.stdout + run.stderr
    assert (run.stdout + run.stderr).count(" passed ") == len(core)


def test_custom_objects_are_valid(built: list[Manifest]) -> None:
    for each in built:
        schema = SPECS.get((each["apiVersion"], each["kind"]))
        if schema is not None:
            assert each.keys() == {"apiVersion", "kind", "metadata", "spec"}
            errors = list(Draft202012Validator(schema).iter_errors(each["spec"]))
            assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_a_slip_in_a_custom_object_is_noticed() -> None:
    topic = by_name(rendered("topics"))["KafkaTopic", "unique"]["spec"]
    validator = Draft202012Validator(SPECS["kafka.strimzi.io/v1", "KafkaTopic"])
    assert validator.is_valid(topic)
    assert not validator.is_valid({**topic, "partition": 6})
    assert not validator.is_valid({**topic, "config": {"retention.ms": 7}})


def test_topics_are_made_by_a_job(workers: dict[tuple[str, str], Manifest]) -> None:
    job = by_name(rendered("example"))["Job", "firstseen-topics"]["spec"]["template"]["spec"]
    (container,) = job["containers"]
    example = by_name(rendered("example"))
    context = parse_command(container["args"])
    assert context.command_path == "firstseen topics create"
    assert context.params["partitions"] == GENERATED["PARTITIONS"]
    assert container["image"] == container_of(example)["image"]
    assert container["envFrom"] == container_of(example)["envFrom"]
    assert job["securityContext"]["runAsUser"] == pod_of(workers)["securityContext"]["runAsUser"]
    mounts = [each["mountPath"] for each in container["volumeMounts"]]
    assert mounts == ["/tmp", "/etc/firstseen/secrets"]  # noqa: S108 - in a container


def test_each_pod_names_its_own_page(workers: dict[tuple[str, str], Manifest]) -> None:
    environment = {each["name"]: each.get("value") for each in container_of(workers)["env"]}
    service = workers["StatefulSet", "firstseen"]["spec"]["serviceName"]
    port = settings_of(workers).web.port
    assert environment["FIRSTSEEN_WEB__URL"] == f"http://$(POD_NAME).{service}:{port}/"
    assert "POD_NAME" in environment


def test_the_image_is_that_of_the_project(workers: dict[tuple[str, str], Manifest]) -> None:
    container, context = container_of(workers), pod_of(workers)["securityContext"]
    name, _, tag = container["image"].rpartition(":")
    assert name in {IMAGE, "registry.example.com/firstseen"}
    assert tag == version()
    assert parse_command(container["args"]).command_path == "firstseen worker"
    assert of_image("USER") == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["fsGroup"] == context["runAsGroup"]


def test_nothing_is_allowed_that_a_worker_does_not_need(
    workers: dict[tuple[str, str], Manifest],
) -> None:
    pod, container = pod_of(workers), container_of(workers)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    account = workers["ServiceAccount", pod["serviceAccountName"]]
    assert account["automountServiceAccountToken"] is False


def test_no_variable_comes_that_a_worker_refuses(workers: dict[tuple[str, str], Manifest]) -> None:
    assert pod_of(workers)["enableServiceLinks"] is False
    data = workers["ConfigMap", "firstseen"]["data"]
    assert [name for name in data if not name.startswith(OURS)] == []
    assert container_of(workers)["envFrom"] == [{"configMapRef": {"name": "firstseen"}}]
    assert settings_of(workers).state_dir.is_absolute()


def test_paths_are_mounted(workers: dict[tuple[str, str], Manifest]) -> None:
    mounts = {each["name"]: each["mountPath"] for each in container_of(workers)["volumeMounts"]}
    volumes = {each["name"]: each for each in pod_of(workers)["volumes"]}
    (claim,) = workers["StatefulSet", "firstseen"]["spec"]["volumeClaimTemplates"]
    data = workers["ConfigMap", "firstseen"]["data"]
    assert mounts.keys() == volumes.keys() | {claim["metadata"]["name"]}
    assert Path(mounts["state"]) == settings_of(workers).state_dir
    for variable in ("FIRSTSEEN_KAFKA_CONFIG", "FIRSTSEEN_WEB__TOKEN_FILE"):
        assert Path(data[variable]).parent == Path(mounts["secrets"])
    assert volumes["secrets"]["secret"]["secretName"] == "firstseen"
    assert "emptyDir" in volumes["tmp"]
    assert not [kind for kind, _ in workers if kind == "Secret"]


def test_selectors_find_the_workers(workers: dict[tuple[str, str], Manifest]) -> None:
    stateful = workers["StatefulSet", "firstseen"]["spec"]
    assert stateful["template"]["metadata"]["labels"] == LABELS
    assert stateful["selector"]["matchLabels"] == LABELS
    (spread,) = pod_of(workers)["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == LABELS
    assert workers["PodDisruptionBudget", "firstseen"]["spec"]["selector"]["matchLabels"] == LABELS
    assert workers["NetworkPolicy", "firstseen"]["spec"]["podSelector"]["matchLabels"] == LABELS
    service = workers["Service", stateful["serviceName"]]["spec"]
    assert service["selector"] == LABELS
    assert service["clusterIP"] == "None"


def test_ports_are_those_of_the_settings(workers: dict[tuple[str, str], Manifest]) -> None:
    settings, container = settings_of(workers), container_of(workers)
    policy = workers["NetworkPolicy", "firstseen"]["spec"]
    (port,) = container["ports"]
    (service,) = workers["Service", "firstseen"]["spec"]["ports"]
    assert settings.web.host == "0.0.0.0"  # noqa: S104 - in a container
    assert port["containerPort"] == service["port"] == settings.web.port
    assert port["name"] == service["name"] == service["targetPort"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    assert {probe["port"] for probe in probes} == {port["name"]}
    assert policy["ingress"][0]["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    brokers = {int(broker.rpartition(":")[2]) for broker in settings.brokers.split(",")}
    assert {each["port"] for each in policy["egress"][1]["ports"]} == brokers


def test_pages_that_are_asked_for_are_there(embedded_broker: Broker, tmp_path: Path) -> None:
    objects = by_name(rendered("example"))
    paths = {
        str(value) for place, value in scalars(container_of(objects)) if place.endswith("Get.path")
    }
    paths |= {each["path"] for each in objects["ServiceMonitor", "firstseen"]["spec"]["endpoints"]}
    assert paths == {"/healthz", "/readyz", "/metrics"}
    with Stream(embedded_broker, tmp_path, raw_partitions=1) as stream:
        worker = stream.started()
        assert {path: worker._get(path)[0] for path in paths} == dict.fromkeys(paths, 200)


def test_times_fit_each_other(workers: dict[tuple[str, str], Manifest]) -> None:
    pod, container, settings = pod_of(workers), container_of(workers), settings_of(workers)

    def patience(probe: str) -> int:
        content = container[f"{probe}Probe"]
        return int(content["periodSeconds"] * content["failureThreshold"])

    assert pod["terminationGracePeriodSeconds"] >= 1.5 * settings.send_timeout_seconds
    assert patience("startup") >= 3600
    assert patience("liveness") >= 60
    assert all(each["timeoutSeconds"] >= 5 for name, each in container.items() if "Probe" in name)


def test_memory_leaves_room(workers: dict[tuple[str, str], Manifest]) -> None:
    resources = container_of(workers)["resources"]
    assert resources["limits"]["memory"] == resources["requests"]["memory"]
    assert 3 * settings_of(workers).block_cache_bytes <= size(resources["limits"]["memory"])


def test_one_worker_at_a_time_is_disturbed(workers: dict[tuple[str, str], Manifest]) -> None:
    spec = workers["PodDisruptionBudget", "firstseen"]["spec"]
    assert spec["maxUnavailable"] == 1
    assert "minAvailable" not in spec


def test_workers_are_not_more_than_shards() -> None:
    partitions = by_name(rendered("topics"))["KafkaTopic", "raw-documents"]["spec"]["partitions"]
    scaled = by_name(rendered("scaled"))["ScaledObject", "firstseen"]["spec"]
    assert by_name(rendered("base"))["StatefulSet", "firstseen"]["spec"]["replicas"] <= partitions
    assert scaled["maxReplicaCount"] <= partitions


def test_keda_is_off() -> None:
    for path in KUBERNETES.rglob("kustomization.yaml"):
        content = yaml.safe_load(path.read_text("utf-8"))
        found = [name for name in content.get("components", []) if "keda" in name]
        assert bool(found) == (path.parent.name == "scaled")
    objects = by_name(rendered("scaled"))
    stateful, settings = objects["StatefulSet", "firstseen"], settings_of(objects)
    spec = objects["ScaledObject", "firstseen"]["spec"]
    assert "replicas" not in stateful["spec"]
    assert spec["scaleTargetRef"] == {
        "apiVersion": stateful["apiVersion"],
        "kind": stateful["kind"],
        "name": "firstseen",
    }
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["consumerGroup"] == settings.application_id
    assert trigger["metadata"]["topic"] == settings.topics.raw
    assert trigger["metadata"]["bootstrapServers"] == settings.brokers
    login = objects["TriggerAuthentication", trigger["authenticationRef"]["name"]]["spec"]
    secret = {each["name"] for each in login["secretTargetRef"]}
    assert secret == {pod_of(objects)["volumes"][1]["secret"]["secretName"]}


def test_prometheus_finds_the_service() -> None:
    objects = by_name(rendered("example"))
    service = objects["Service", "firstseen"]
    monitor = objects["ServiceMonitor", "firstseen"]["spec"]
    labels = service["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["jobLabel"]] == "firstseen"
    assert {each["port"] for each in monitor["endpoints"]} == {
        each["name"] for each in service["spec"]["ports"]
    }


def written_files() -> list[Path]:
    """The files that are written by hand, and that kustomizations take in."""
    return [
        path
        for path in sorted(KUBERNETES.rglob("*.yaml"))
        if path.name != "kustomization.yaml" and path.parent.name != "rendered"
    ]


def test_documented_files_hold_one_object_of_each_name() -> None:
    found = [
        (each["kind"], each["metadata"]["name"])
        for path in written_files()
        for each in documents(path)
        if "namespace" not in each["metadata"]
    ]
    assert len(found) == len(set(found))
    assert len(found) == sum(len(documents(path)) for path in written_files())
