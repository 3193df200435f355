"""Clients of librdkafka that never block the thread that releases them.

Ending a client joins the library's own threads. If a broker disappears at that moment, one of these
threads may never end (librdkafka 2.16). The thread that dropped the last reference then waits in C
code, where no signal or time limit ends the wait. A consumer that leaves its group also waits five
seconds for a silent broker.

So every client is of one of these classes and ends in its own thread, no matter whether an
attribute, a local variable, the garbage collector or ``close`` released it. If a client does not
end in time, this is logged and its thread continues; the process can exit anyway.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition, admin

from simhash_core.documents import SourcePosition
from simhash_core.log.records import NO_EPOCH

# ---- Blocking calls of a client, in order, in a thread that is abandoned if one hangs.

_LOOK_SECONDS: Final = 0.5

_Result = TypeVar("_Result")
_Work = tuple[Callable[[], Any], "Future[Any]"]


class ClientThread:
    """Runs calls in order, in a thread that does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._queue: SimpleQueue[_Work | None] | None = None

    async def run(self, work: Callable[[], _Result], hangs: Callable[[], bool]) -> _Result:
        """Return what ``work`` returns, or raise what it raises.

        Raises ``TimeoutError`` once ``hangs`` returns true: ``work`` may go on in the old thread,
        and later calls get a new one.
        """
        if self._queue is None:
            self._queue = SimpleQueue()
            # The thread is a daemon, because the interpreter waits at its end for an executor's
            # threads.
            threading.Thread(
                target=_serve, args=(self._queue,), name=self._name, daemon=True
            ).start()
        future: Future[_Result] = Future()
        self._queue.put((work, future))
        result = asyncio.wrap_future(future)
        try:
            while not (await asyncio.wait([result], timeout=_LOOK_SECONDS))[0]:
                if hangs():
                    self.end()
                    raise TimeoutError
            return result.result()
        finally:
            result.cancel()  # nobody waits for it any more

    def end(self) -> None:
        if self._queue is not None:
            self._queue.put(None)
            self._queue = None


def _serve(queue: SimpleQueue[_Work | None]) -> None:
    while (item := queue.get()) is not None:
        work, future = item
        if future.set_running_or_notify_cancel():
            _resolve(future, work)
        del work, future, item  # they may have the last reference to a client


def _resolve(future: Future[Any], work: Callable[[], object]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it belongs to the caller
        future.set_exception(error)


logger = logging.getLogger(__name__)

END_SECONDS: Final = 30.0
"""A client that takes longer to end is logged. A request to a silent broker and the last commit of
a group member take less time."""
_EXIT_SECONDS: Final = 3.0  # how long the exiting process waits for clients that are ending
_END_LOOK_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 0.01
_METADATA_SECONDS: Final = 1.0
_DROP_LOOKS: Final = 100
_ITS_REFERENCES: Final = 2
"""The number of references to a released client: one of the list, one of the call that counts."""


class _Callback:
    """A callback of a client's owner, which is released when the client ends.

    Otherwise an owner with a method as callback would keep its own client alive, and the garbage
    collector would end both in any thread.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function: Callable[..., Any] | None = function

    def __call__(self, *arguments: Any) -> Any:  # noqa: ANN401 - those of the library
        return None if self.function is None else self.function(*arguments)


class _Ends:
    """Ends each released client in its own thread, and watches these threads in another one."""

    def __init__(self) -> None:
        # Calling ``put`` is safe anywhere, even in the garbage collector within another ``put``.
        self._queue: SimpleQueue[list[_Client] | SimpleQueue[list[str]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._watcher: threading.Thread | None = None
        self._left: list[list[_Client]] = []  # they end with the process

    def open(self) -> None:
        """Start the watching thread once, because a finalizer cannot start threads safely."""
        with self._lock:
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._watch, name="ends of Kafka clients", daemon=True
                )
                self._watcher.start()

    def add(self, client: _Client) -> None:
        """End a client; return at once and take no lock."""
        self._queue.put([client])

    def await_all(self, seconds: float) -> list[str]:
        """Wait at most ``seconds`` until all have ended; return the names of the others."""
        if self._watcher is None:
            return []
        deadline = time.monotonic() + seconds
        while True:
            answer: SimpleQueue[list[str]] = SimpleQueue()
            self._queue.put(answer)
            names = answer.get()
            if not names or time.monotonic() > deadline:
                return names
            time.sleep(_AGAIN_SECONDS)

    def _watch(self) -> None:
        pending: dict[threading.Thread, float] = {}
        late: set[threading.Thread] = set()
        while True:
            try:
                item = self._queue.get(timeout=_END_LOOK_SECONDS if pending else None)
            except Empty:
                item = None
            pending = {thread: since for thread, since in pending.items() if thread.is_alive()}
            if isinstance(item, list):
                try:
                    pending[_begin_end(item)] = time.monotonic()
                except RuntimeError:  # from 3.12 on, no thread starts while the interpreter ends
                    self._left.append(item)
            elif item is not None:
                item.put([thread.name for thread in pending])
            late &= pending.keys()
            for thread, since in pending.items():
                if time.monotonic() - since > END_SECONDS and thread not in late:
                    late.add(thread)
                    _log_late(thread.name, END_SECONDS)


def _begin_end(box: list[_Client]) -> threading.Thread:
    for each in box[0]._callbacks:  # noqa: SLF001 - of this module
        each.function = None
    thread = threading.Thread(target=_drop, args=(box,), name=box[0]._name, daemon=True)  # noqa: SLF001
    thread.start()
    return thread


def _drop(box: list[_Client]) -> None:
    # The finalizer may still be running: it would then drop the last reference, and wait.
    for _ in range(_DROP_LOOKS):
        if sys.getrefcount(box[0]) <= _ITS_REFERENCES:
            break
        time.sleep(_AGAIN_SECONDS)
    box.clear()


_ENDS: Final = _Ends()


class _Client:
    _kind = ""
    _name = "Kafka client"
    _callbacks: tuple[_Callback, ...] = ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        _ENDS.open()
        client, brokers = config.get("client.id", "rdkafka"), config.get("bootstrap.servers", "")
        self._name = f"{self._kind} {client!r} of {brokers}"
        super().__init__(  # type: ignore[call-arg]
            {
                name: self._callback(value) if callable(value) else value
                for name, value in config.items()
            }
        )

    def _callback(self, function: Callable[..., Any]) -> _Callback:
        callback = _Callback(function)
        self._callbacks = (*self._callbacks, callback)
        return callback

    def _close(self, close: Callable[[], object], seconds: float) -> None:
        """Call a blocking ``close`` of the library; raise its error if it occurs in time."""
        future: Future[object] = Future()
        threading.Thread(
            target=_resolve, args=(future, close), name=f"close of {self._name}", daemon=True
        ).start()
        if wait([future], seconds).done:
            future.result()
        else:
            _log_late(self._name, seconds)

    # This is called once per object, when its last reference is dropped; the queue revives the
    # object. While the interpreter shuts down, the object stays there, because the watcher's frame
    # is never released.
    def __del__(self, add: Callable[[_Client], None] = _ENDS.add) -> None:
        add(self)


class Consumer(_Client, confluent_kafka.Consumer):
    _kind = "consumer"

    def subscribe(self, topics: Sequence[str], **callbacks: Callable[..., Any]) -> None:  # type: ignore[override]
        """``callbacks`` are ``on_assign``, ``on_revoke`` and ``on_lost``."""
        super().subscribe(
            list(topics), **{name: self._callback(function) for name, function in callbacks.items()}
        )

    def close(self, seconds: float = END_SECONDS) -> None:
        """Leave the group and end, in another thread; log it if this takes longer."""
        self._close(super().close, seconds)

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer(_Client, confluent_kafka.Producer):
    _kind = "producer"

    def close(self, seconds: float = END_SECONDS) -> bool:
        self._close(super().close, seconds)
        return True

    def __exit__(self, *_: object) -> None:
        self.close()


class AdminClient(_Client, admin.AdminClient):
    _kind = "admin client"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        super().__init__(config)

    def close(self, seconds: float = END_SECONDS) -> None:
        leave = super().__exit__
        self._close(lambda: leave(None, None, None), seconds)

    def __exit__(self, *_: object) -> None:
        self.close()


await_ends = _ENDS.await_all


def _log_late(name: str, seconds: float) -> None:
    logger.warning(
        "the Kafka client did not close within %g s; a separate thread waits for it: %s",
        seconds,
        name,
    )


atexit.register(await_ends, _EXIT_SECONDS)


# ---- The offsets of partitions at a broker: first, last, and committed.
#
# Each function tries once; ``streams.kafka.errors`` retries.


class RawOffset(NamedTuple):
    """A raw offset to read next, and the leader epoch of the last record before it (KIP-320).

    With both, a client finds out whether brokers have lost that record.
    """

    next: int
    leader_epoch: int = NO_EPOCH

    def of(self, topic: str, partition: int) -> TopicPartition:
        return TopicPartition(topic, partition, self.next, leader_epoch=self.leader_epoch)


def committed_offsets(
    consumer: Consumer, partitions: Sequence[TopicPartition], seconds: float
) -> list[TopicPartition]:
    """Return the offsets that the consumer's group has committed, negative if there are none.

    Raises ``KafkaException``, also for an error of a single partition.
    """
    committed = consumer.committed(list(partitions), timeout=seconds)
    for each in committed:
        if each.error is not None:
            raise KafkaException(each.error)
    return committed


def offset_range(consumer: Consumer, topic: str, partition: int, seconds: float) -> tuple[int, int]:
    """Return the first offset and the end; raise ``KafkaException``.

    A client that knows a topic does not request a partition that was added later for some minutes.
    After such an error the next call knows the partition.
    """
    topic_partition = TopicPartition(topic, partition)
    try:
        watermarks = consumer.get_watermark_offsets(topic_partition, timeout=seconds, cached=False)
    except KafkaException as error:
        if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - a public code
            # For all topics, because a request by name may create a topic.
            with suppress(KafkaException):
                consumer.list_topics(timeout=min(seconds, _METADATA_SECONDS))
        raise
    if watermarks is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 - a public code
    return watermarks


def is_read_to_end(consumer: Consumer, topic: str, partition: int, next_offset: int) -> bool:
    """Return whether the last fetch had no record from ``next_offset`` on, without a request.

    The client's own end event needs another fetch. But if a transaction marker is the last record
    of the partition, only that event reports the end.
    """
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), cached=True)
    return bool(0 <= end <= next_offset)


# ---- What the library's message holds, in this project's types.


def position_of(message: Message) -> SourcePosition:
    return SourcePosition(message.topic() or "", message.partition() or 0, message.offset() or 0)
