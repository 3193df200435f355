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


def closed(required: Mapping[str, Schema], **optional: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def listed(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


_RULE: Schema = closed(
    {"expr": {"type": ["string", "integer"]}},
    record=TEXT,
    alert=TEXT,
    **{"for": DURATION},
    keep_firing_for=DURATION,
    labels=TEXTS,
    annotations=TEXTS,
) | {"oneOf": [{"required": ["record"]}, {"required": ["alert"]}]}

_SCALING: Schema = closed(
    {
        "stabilizationWindowSeconds": {"type": "integer", "minimum": 0, "maximum": 3600},
        "policies": listed(
            closed(
                {
                    "type": {"enum": ["Pods", "Percent"]},
                    "value": COUNT,
                    "periodSeconds": {"type": "integer", "minimum": 1, "maximum": 1800},
                }
            )
        ),
    },
    selectPolicy={"enum": ["Max", "Min", "Disabled"]},
)

_KAFKA_TRIGGER: Schema = closed(
    {"bootstrapServers": TEXT, "consumerGroup": TEXT, "topic": TEXT, "lagThreshold": TEXT},
    activationLagThreshold=TEXT,
    offsetResetPolicy={"enum": ["latest", "earliest"]},
    allowIdleConsumers={"enum": ["true", "false"]},
    scaleToZeroOnInvalidOffset={"enum": ["true", "false"]},
)

SPECS: Mapping[tuple[str, str], Schema] = {
    ("kafka.strimzi.io/v1", "KafkaTopic"): closed(
        {"partitions": COUNT, "replicas": COUNT, "config": TEXTS}, topicName=TEXT
    ),
    ("monitoring.coreos.com/v1", "ServiceMonitor"): closed(
        {
            "selector": closed({"matchLabels": TEXTS}),
            "endpoints": listed(
                closed({"port": TEXT, "path": TEXT}, interval=DURATION, scrapeTimeout=DURATION)
            ),
        },
        jobLabel=TEXT,
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): closed(
        {
            "groups": listed(
                closed({"name": TEXT, "rules": listed(_RULE)}, interval=DURATION, labels=TEXTS)
            )
        }
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): closed(
        {
            "scaleTargetRef": closed({"name": TEXT}, apiVersion=TEXT, kind=TEXT),
            "triggers": listed(
                closed(
                    {"type": {"const": "kafka"}, "metadata": _KAFKA_TRIGGER},
                    authenticationRef=closed({"name": TEXT}),
                )
            ),
        },
        minReplicaCount={"type": "integer", "minimum": 0},
        maxReplicaCount=COUNT,
        pollingInterval=COUNT,
        cooldownPeriod=COUNT,
        advanced=closed(
            {},
            horizontalPodAutoscalerConfig=closed(
                {"behavior": closed({}, scaleUp=_SCALING, scaleDown=_SCALING)}
            ),
        ),
    ),
    ("keda.sh/v1alpha1", "TriggerAuthentication"): closed(
        {
            "secretTargetRef": listed(
                closed(
                    {
                        "parameter": {"enum": ["sasl", "username", "password", "tls", "ca"]},
                        "name": TEXT,
                        "key": TEXT,
                    }
                )
            )
        }
    ),
}
"""What a ``spec`` may be, by apiVersion and kind."""
