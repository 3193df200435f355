"""Reading the settings of topics while brokers fail."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streams.errors import BrokerUnavailableError
from streams.kafka.clients import AdminClient
from streams.topics.admin import TopicsError, topic_configs


class RefusingAdmin:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {resource: Future() for resource in resources}
        for answer in answers.values():
            answer.set_exception(self._error)
        return answers


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (KafkaException(KafkaError(KafkaError._TIMED_OUT)), BrokerUnavailableError),
        (TimeoutError(), BrokerUnavailableError),
        (KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)), TopicsError),
    ],
)
def test_brokers_that_do_not_answer_are_told_from_those_that_refuse(
    error: BaseException, raised: type[Exception]
) -> None:
    """If no broker answers, a worker that starts ends with the code for "try again later"."""
    admin = cast("AdminClient", RefusingAdmin(error))
    with pytest.raises(raised, match="the settings of unique cannot be read"):
        topic_configs(admin, ["unique"])
