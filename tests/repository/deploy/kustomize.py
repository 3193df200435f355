"""What ``kubectl kustomize`` would make of our kustomizations, as far as they use it.

A field that is not known here is an error, so that nothing is passed over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.repository.deploy.shipped_files import documents

Manifest = dict[str, Any]


class KustomizeError(ValueError):
    """A kustomization that cannot be built; the message names the file and the part of it."""


def build(directory: Path, *components: Path) -> list[Manifest]:
    """Return the objects of a kustomization, with more ``components`` at its end."""
    return _built([], directory, components)


def by_name(manifests: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Return objects by kind and name; generated names are those of the file, without a hash."""
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests}


def _built(before: list[Manifest], directory: Path, components: Iterable[Path]) -> list[Manifest]:
    content = yaml.safe_load((directory / "kustomization.yaml").read_text("utf-8"))
    found = list(before)
    for name in content.get("resources", []):
        path = directory / name
        found += build(path) if path.is_dir() else documents(path)
    for name in content.get("components", []):
        found = _built(found, (directory / name).resolve(), [])
    for component in components:
        found = _built(found, component, [])
    if len(by_name(found)) != len(found):
        raise KustomizeError(f"{directory.name}: an object is there twice")
    unknown = content.keys() - _FIELDS.keys() - {"apiVersion", "kind", "resources", "components"}
    if unknown:
        raise KustomizeError(f"{directory.name}: not read here: {', '.join(sorted(unknown))}")
    for field, apply in _FIELDS.items():
        if field in content:
            apply(found, content[field])
    return found


def _namespace(found: list[Manifest], value: str) -> None:
    for each in found:
        each["metadata"]["namespace"] = value


def _labels(found: list[Manifest], value: list[dict[str, Any]]) -> None:
    for entry in value:
        if entry["includeSelectors"] is not False or entry["includeTemplates"] is not True:
            raise KustomizeError("labels: not read here so")
        for each in found:
            spec = each.get("spec", {})
            for target in (each, spec.get("template"), *spec.get("volumeClaimTemplates", [])):
                if target is not None:
                    target["metadata"].setdefault("labels", {}).update(entry["pairs"])


def _images(found: list[Manifest], value: list[dict[str, str]]) -> None:
    for entry in value:
        containers = [
            container
            for each in found
            if each["kind"] == "StatefulSet"
            for container in each["spec"]["template"]["spec"]["containers"]
            if container["image"].partition(":")[0] == entry["name"]
        ]
        if not containers:
            raise KustomizeError(f"images: nothing has {entry['name']}")
        for container in containers:
            container["image"] = f"{entry['newName']}:{entry['newTag']}"


def _replicas(found: list[Manifest], value: list[dict[str, Any]]) -> None:
    for entry in value:
        _one(found, "StatefulSet", entry["name"])["spec"]["replicas"] = entry["count"]


def _config_maps(found: list[Manifest], value: list[dict[str, Any]]) -> None:
    for entry in value:
        data = dict(literal.split("=", 1) for literal in entry["literals"])
        if entry.get("behavior") == "merge":
            _one(found, "ConfigMap", entry["name"])["data"].update(data)
        else:
            metadata = {"name": entry["name"]}
            found.append(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )


def _patches(found: list[Manifest], value: list[dict[str, Any]]) -> None:
    for entry in value:
        target = _one(found, entry["target"]["kind"], entry["target"]["name"])
        for change in yaml.safe_load(entry["patch"]):
            _change(target, change)


def _change(target: Manifest, change: Mapping[str, Any]) -> None:
    """Apply one operation of JSON Patch; a place that is not there is an error."""
    *way, last = change["path"].strip("/").split("/")
    place: Any = target
    try:
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        index = int(last) if isinstance(place, list) else last
        place[index]
    except (LookupError, ValueError) as error:
        raise KustomizeError(f"patches: there is no {change['path']}") from error
    if change["op"] == "remove":
        del place[index]
    elif change["op"] == "replace":
        place[index] = copy.deepcopy(change["value"])
    else:
        raise KustomizeError(f"patches: {change['op']} is not read here")


def _one(found: list[Manifest], kind: str, name: str) -> Manifest:
    matching = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    if len(matching) != 1:
        raise KustomizeError(f"{kind} {name}: there are {len(matching)}, not one")
    return matching[0]


# In the order in which they are applied.
_FIELDS: Mapping[str, Callable[[list[Manifest], Any], None]] = {
    "configMapGenerator": _config_maps,
    "patches": _patches,
    "images": _images,
    "replicas": _replicas,
    "labels": _labels,
    "namespace": _namespace,
}
