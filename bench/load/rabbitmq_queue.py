"""A durable RabbitMQ queue by pika: persistent messages with publisher confirms, then a consumer.

pika's callback interface keeps many publishes in flight, which its blocking one cannot. The consumer takes
messages without acknowledging each one, which is RabbitMQ's fastest.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pika
from pika.adapters.select_connection import SelectConnection

from bench.load.arguments import arguments, payload, result

if TYPE_CHECKING:
    from pika.channel import Channel

BATCH = 100
OUTSTANDING_MAX = 4_000
PERSISTENT = pika.BasicProperties(delivery_mode=2)


class Run:
    def __init__(self, given: dict[str, Any]) -> None:
        self.given, self.body = given, payload(given["size"])
        self.sent = self.confirmed = self.got = 0
        # Confirms of single messages may overtake one that covers many.
        self.confirmed_up_to, self.confirmed_beyond = 0, set[int]()
        self.publishing = True
        self.began = self.publish_seconds = self.consume_seconds = 0.0
        self.connection = SelectConnection(
            pika.ConnectionParameters("127.0.0.1", given["port"]),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self.on_channel),
            on_open_error_callback=self.on_failure,
        )

    def on_failure(self, _: object, error: BaseException) -> None:
        raise SystemExit(f"no connection: {error}")

    def on_channel(self, channel: Channel) -> None:
        self.channel = channel
        channel.confirm_delivery(self.on_confirm, callback=lambda _: self.declare())

    def declare(self) -> None:
        self.channel.queue_declare(self.given["topic"], durable=True, callback=lambda _: self.start())

    def start(self) -> None:
        self.began = time.perf_counter()
        self.publish()

    def publish(self) -> None:
        """One small batch a turn of the loop, so that confirms are read in between."""
        if self.sent >= self.given["count"] or time.perf_counter() - self.began > self.given["seconds"]:
            self.publishing = False
            self.maybe_finish_publishing()
            return
        if self.sent - self.confirmed < OUTSTANDING_MAX:
            for _ in range(BATCH):
                self.channel.basic_publish("", self.given["topic"], self.body, PERSISTENT)
            self.sent += BATCH
            self.connection.ioloop.add_callback(self.publish)
        else:
            self.connection.ioloop.call_later(0.001, self.publish)

    def on_confirm(self, frame: Any) -> None:
        if frame.method.NAME != "Basic.Ack":
            raise SystemExit("a message was refused")
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self.confirmed_up_to = tag
            self.confirmed_beyond = {other for other in self.confirmed_beyond if other > tag}
        else:
            self.confirmed_beyond.add(tag)
        self.confirmed = self.confirmed_up_to + len(self.confirmed_beyond)
        self.maybe_finish_publishing()

    def maybe_finish_publishing(self) -> None:
        if self.publishing or self.confirmed < self.sent or self.publish_seconds:
            return
        self.publish_seconds = time.perf_counter() - self.began
        self.began = time.perf_counter()
        self.channel.basic_consume(self.given["topic"], self.on_message, auto_ack=True)

    def on_message(self, *_: object) -> None:
        self.got += 1
        if self.got == self.sent:
            self.consume_seconds = time.perf_counter() - self.began
            self.channel.queue_delete(self.given["topic"], callback=lambda _: self.connection.ioloop.stop())


def main() -> None:
    run = Run(arguments())
    run.connection.ioloop.start()
    result(
        published=run.sent,
        publish_seconds=run.publish_seconds,
        consumed=run.got,
        consume_seconds=run.consume_seconds,
    )


if __name__ == "__main__":
    main()
