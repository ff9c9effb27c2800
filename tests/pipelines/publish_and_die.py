"""Publishes a staged batch as the driver of a stream does, and dies at a step: BOOTSTRAP TOPIC STEP FILE.

A step is a method of the producer, with `before` or `after`: `after:commit_transaction`.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from penstock.spark import sender
from penstock.spark.options import Connection
from penstock.spark.transactions import TransactionalSink

TIMEOUT_MS = 60_000


def dying_producer(step: str) -> type[Producer]:
    moment, _, name = step.partition(":")

    class DyingProducer(Producer):
        pass

    def method(self: Producer, *arguments: Any, **named: Any) -> Any:
        if moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        answer = getattr(Producer, name)(self, *arguments, **named)
        if name == "produce":
            self.flush()  # what was sent is in the topic, and open
        os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(DyingProducer, name, method)
    return DyingProducer


def main(bootstrap: str, topic: str, step: str, file: str) -> None:
    batch, staged = pickle.loads(Path(file).read_bytes())
    sender.Producer = dying_producer(step)
    TransactionalSink(Connection(bootstrap, TIMEOUT_MS), topic, topic).publish(batch, staged)


if __name__ == "__main__":
    main(*sys.argv[1:])
