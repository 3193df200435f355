"""The fields of the custom resources that we use, by what their makers publish.

Kubernetes itself knows none of them. These are the parts of their schemas that our manifests have
fields of; a field that is not here is a slip of the pen, or is to be looked up and added.

Sources: the CRDs of the Prometheus Operator (monitoring.coreos.com/v1), of Strimzi
(kafka.strimzi.io/v1) and of KEDA (keda.sh/v1alpha1), and KEDA's page on the Apache Kafka scaler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "object", "additionalProperties": TEXT}
DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"}
COUNT: Schema = {"type": "integer", "minimum": 1}


def fields(content: Mapping[str, Schema]) -> Schema:
    """An object with these fields and no others; a name with a question mark may be left out."""
    return {
        "type": "object",
        "properties": {name.removesuffix("?"): schema for name, schema in content.items()},
        "required": [name for name in content if not name.endswith("?")],
        "additionalProperties": False,
    }


def listed(content: Mapping[str, Schema], **rules: object) -> Schema:
    """A list of such objects, with something in it."""
    return {"type": "array", "items": fields(content) | rules, "minItems": 1}


def between(minimum: int, maximum: int) -> Schema:
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


def one_of(*values: str) -> Schema:
    return {"enum": list(values)}


RULE = {
    "expr": {"type": ["string", "integer"]},
    "record?": TEXT,
    "alert?": TEXT,
    "for?": DURATION,
    "keep_firing_for?": DURATION,
    "labels?": TEXTS,
    "annotations?": TEXTS,
}
POLICY = {
    "type": one_of("Pods", "Percent"),
    "value": COUNT,
    "periodSeconds": between(1, 1800),
}
SCALING = {
    "stabilizationWindowSeconds": between(0, 3600),
    "policies": listed(POLICY),
    "selectPolicy?": one_of("Max", "Min", "Disabled"),
}
BEHAVIOR = {"scaleUp?": fields(SCALING), "scaleDown?": fields(SCALING)}
KAFKA_TRIGGER = {
    **dict.fromkeys(("bootstrapServers", "consumerGroup", "topic", "lagThreshold"), TEXT),
    "activationLagThreshold?": TEXT,
    "offsetResetPolicy?": one_of("latest", "earliest"),
    "allowIdleConsumers?": one_of("true", "false"),
    "scaleToZeroOnInvalidOffset?": one_of("true", "false"),
}
TRIGGER = {
    "type": one_of("kafka"),
    "metadata": fields(KAFKA_TRIGGER),
    "authenticationRef?": fields({"name": TEXT}),
}
ENDPOINT = {"port": TEXT, "path": TEXT, "interval?": DURATION, "scrapeTimeout?": DURATION}
GROUP = {
    "name": TEXT,
    "rules": listed(RULE, oneOf=[{"required": ["record"]}, {"required": ["alert"]}]),
    "interval?": DURATION,
    "labels?": TEXTS,
}
SECRET = {
    "parameter": one_of("sasl", "username", "password", "tls", "ca"),
    "name": TEXT,
    "key": TEXT,
}

SPECS: Mapping[tuple[str, str], Schema] = {
    ("kafka.strimzi.io/v1", "KafkaTopic"): fields(
        {"partitions": COUNT, "replicas": COUNT, "config": TEXTS, "topicName?": TEXT}
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): fields(
        {
            "selector": fields({"matchLabels": TEXTS}),
            "endpoints": listed(ENDPOINT),
            "jobLabel?": TEXT,
        }
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): fields({"groups": listed(GROUP)}),
    ("keda.sh/v1alpha1", "ScaledObject"): fields(
        {
            "scaleTargetRef": fields({"name": TEXT, "apiVersion?": TEXT, "kind?": TEXT}),
            "triggers": listed(TRIGGER),
            "minReplicaCount?": {"type": "integer", "minimum": 0},
            "maxReplicaCount?": COUNT,
            "pollingInterval?": COUNT,
            "cooldownPeriod?": COUNT,
            "advanced?": fields(
                {"horizontalPodAutoscalerConfig?": fields({"behavior?": fields(BEHAVIOR)})}
            ),
        }
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): fields({"secretTargetRef": listed(SECRET)}),
}
"""What a ``spec`` may be, by apiVersion and kind."""
