"""What Kustomize makes of deploy/kubernetes, from the rendered files there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from tests.repository.deploy.shipped_files import KUBERNETES

Manifest = dict[str, Any]


def rendered(name: str) -> list[Manifest]:
    """Return the objects of a rendered kustomization.

    The generated name of the ConfigMap is that of the kustomization, without its hash.
    """
    text = (KUBERNETES / "rendered" / f"{name}.yaml").read_text("utf-8")
    maps = [each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"]
    for each in maps:
        generated = each["metadata"]["name"]
        text = text.replace(generated, generated.rpartition("-")[0])
    return list(yaml.safe_load_all(text))


def by_name(manifests: Iterable[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Return objects by kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in manifests}
