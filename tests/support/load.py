"""Writers at work while a test changes the cluster under them, and the checker's word at the end.

    with under_load(cluster.bootstrap, "orders", partitions=4) as load:
        …
        load.goes_on()

When the block ends, all that was acknowledged is read once more from the start: it must be there once, in
order, at the offset that its writer was told. No write may have failed.
"""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from penstock.client.kafka.listed_offsets import list_offsets
from tests.support.fault_clients import Recorder, Writer, read_to_the_end
from tests.support.history import Outcome, check, summary
from tests.support.topics import REQUEST_S_MAX, admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

WRITERS = 2
MORE = 50
"""Acknowledgements of each writer that show that it goes on."""
GO_ON_S_MAX = 30.0


class Load:
    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.recorder = Recorder()
        self._place = (bootstrap, topic, partitions, self.recorder)
        self._writers = [
            Writer(f"writer-{number}", *self._place, chance=random.Random(number))
            for number in range(WRITERS)
        ]

    def start(self) -> None:
        for writer in self._writers:
            writer.start()
        self.goes_on()

    def goes_on(self) -> None:
        """Returns when every writer has got further."""
        wanted = [writer.acknowledged + MORE for writer in self._writers]
        wait_until(
            lambda: all(
                writer.acknowledged >= count for writer, count in zip(self._writers, wanted, strict=True)
            ),
            "writes go on",
            timeout_s=GO_ON_S_MAX,
        )

    def stop(self) -> None:
        for writer in self._writers:
            writer.stop()
        for writer in self._writers:
            writer.join()

    def check(self, bootstrap: str) -> None:
        """All that was promised is there, for somebody who comes now."""
        _, topic, partitions, recorder = self._place
        ends = end_offsets(bootstrap, topic, partitions)
        read_to_the_end("last", bootstrap, topic, ends, recorder)()
        history = recorder.finish()
        assert recorder.complaints == []
        assert all(send.outcome is Outcome.OK for send in history.sends), "a write was not acknowledged"
        anomalies = check(history)
        assert not anomalies, "\n".join((summary(anomalies), *recorder.epochs))
        assert sum(len(poll.records) for poll in history.polls) == len(history.sends)


@contextmanager
def under_load(bootstrap: str, topic: str, partitions: int) -> Iterator[Load]:
    load = Load(bootstrap, topic, partitions)
    try:
        load.start()
        yield load
        load.goes_on()
    finally:
        load.stop()
    load.check(bootstrap)


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    asked = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}
    client = admin(bootstrap)  # kept: its answers end with it
    found = list_offsets(client, asked)
    return {each.partition: future.result(REQUEST_S_MAX).offset for each, future in found.items()}


def create_replicated(bootstrap: str, topic: str, partitions: int, replicas: int) -> None:
    """Through a change of the controller: then a request may time out, and have been carried out."""
    client = admin(bootstrap)

    def create() -> bool:
        (future,) = client.create_topics([NewTopic(topic, partitions, replicas)]).values()
        try:
            future.result(REQUEST_S_MAX)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.REQUEST_TIMED_OUT:
                tries.append(code)
                return False
            if code != KafkaError.TOPIC_ALREADY_EXISTS or not tries:
                raise
        return True

    tries: list[int] = []
    wait_until(create, f"topic {topic}", timeout_s=REQUEST_S_MAX)
