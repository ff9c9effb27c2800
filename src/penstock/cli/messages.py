"""`penstock produce` and `penstock consume`: lines in, lines out."""

import json as json_module
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from penstock.cli.kafka import (
    BATCH_MESSAGES_MAX,
    METADATA_SECONDS_MAX,
    POLL_SECONDS,
    client_config,
    cluster_metadata,
    connect,
    error_line,
    errors_as_lines,
    require_reachable,
    require_topic,
)
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, check_name, is_offset
from penstock.cli.output import CommandFailed, counted, discard_output, errors_on_terminal

DELIVERY_MS_MAX = 30_000
LINE_BYTES_MAX = 1_000_000_000
"""librdkafka's own limit; whether a line is too long is for the broker to say."""

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", callback=check_name)]


def register(app: typer.Typer) -> None:
    app.command()(produce)
    app.command()(consume)


def produce(
    topic: Topic,
    key: Annotated[str | None, typer.Option(help="The key of every message.")] = None,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Read lines from here, not from stdin.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
) -> None:
    """Send each line as one message; done when the broker has acknowledged all of them."""
    lines = lines_of(file)
    cluster_metadata(connect(bootstrap), bootstrap)
    settings = client_config(
        bootstrap,
        enable_idempotence=True,
        linger_ms=5,
        message_timeout_ms=DELIVERY_MS_MAX,
        message_max_bytes=LINE_BYTES_MAX,
    )
    delivery = send_all(Producer(settings), topic, key_bytes(key), lines)
    if delivery.reason:
        raise CommandFailed(
            f"{delivery.failed:,} of {counted(delivery.sent, 'message')} not delivered: {delivery.reason}"
        )
    if errors_on_terminal():
        print(f"{counted(delivery.sent, 'message')} to {topic}", file=sys.stderr)


def key_bytes(key: str | None) -> bytes | None:
    """A key is bytes to Kafka: what was typed is sent, also if it is not text."""
    return None if key is None else os.fsencode(key)


def send_all(producer: Producer, topic: str, key: bytes | None, lines: Iterator[bytes]) -> "Delivery":
    """Sends until the end of input or the first line that librdkafka refuses; what was sent is waited for."""
    delivery = Delivery()
    try:
        for line in lines:
            send(producer, topic, line, key, delivery)
    except KafkaException as error:
        delivery.sent += 1
        delivery.failed += 1
        delivery.reason = error_line(error)
    while producer.flush(POLL_SECONDS):
        pass
    return delivery


class Delivery:
    """Counts what became of the messages; holds on to the first reason of a failure."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self.reason = ""

    def report(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.failed += 1
            self.reason = self.reason or error_line(error)


def send(producer: Producer, topic: str, line: bytes, key: bytes | None, delivery: Delivery) -> None:
    """Queues a message; when librdkafka's queue is full, waits until some were delivered."""
    while True:
        try:
            producer.produce(topic, line, key, on_delivery=delivery.report)
        except BufferError:
            producer.poll(POLL_SECONDS)
            continue
        delivery.sent += 1
        producer.poll(0)
        return


def lines_of(file: Path | None) -> Iterator[bytes]:
    if file is not None:
        return lines_of_file(file)
    if sys.stdin is None:
        raise CommandFailed("standard input is closed")
    return without_newline(sys.stdin.buffer)


def lines_of_file(file: Path) -> Iterator[bytes]:
    if not errors_on_terminal():
        with file.open("rb") as opened:
            yield from without_newline(opened)
    else:
        from rich.console import Console
        from rich.progress import open as open_with_progress

        console = Console(stderr=True)
        with open_with_progress(file, "rb", description="sending", console=console) as watched:
            yield from without_newline(watched)


def without_newline(lines: BinaryIO) -> Iterator[bytes]:
    return (line.removesuffix(b"\n") for line in lines)


def consume(
    topic: Topic,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="beginning|end|OFFSET",
            help="Where to start. Default: the beginning, or where the group stopped.",
        ),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="Read as a member of this consumer group.", callback=check_name)
    ] = None,
    number: Annotated[
        int | None, typer.Option("-n", min=1, help="Stop after this many messages; else go on for ever.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Print the messages of a topic, one a line. A group commits what was printed."""
    offset = parse_start(start)
    if sys.stdout is None:
        raise CommandFailed("standard output is closed")
    require_reachable(bootstrap)
    printed = 0
    with errors_as_lines(), closing(open_consumer(bootstrap, topic, group, offset)) as consumer:
        try:
            while number is None or printed < number:
                batch = next_messages(consumer, min(BATCH_MESSAGES_MAX, (number or sys.maxsize) - printed))
                printed += len(batch)  # first: an interrupt may come between any two steps
                print_messages(batch, json)
                if group is not None:
                    for message in batch:
                        consumer.store_offsets(message)
        except KeyboardInterrupt:
            if number is not None:
                raise CommandFailed(f"stopped after {printed:,} of {counted(number, 'message')}") from None
        except BrokenPipeError:
            discard_output()  # nobody reads on (`| head`): an end, not a failure


def parse_start(text: str | None) -> int | None:
    if text is None or is_offset(text):
        return None if text is None else int(text)
    named = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}
    if text not in named:
        raise typer.BadParameter(f"{text!r} is not 'beginning', 'end' or an offset", param_hint="--from")
    return named[text]


def open_consumer(bootstrap: str, topic: str, group: str | None, start: int | None) -> Consumer:
    """A consumer of all partitions of the topic, or of its share as a member of `group`."""
    settings = client_config(
        bootstrap,
        group_id=group or "penstock-cli-without-group",
        # Offsets are stored once the lines are out, and committed from there in the background, when
        # partitions are taken away, and on close.
        enable_auto_commit=group is not None,
        enable_auto_offset_store=False,
        auto_offset_reset="earliest",
        enable_partition_eof=False,
    )
    consumer = Consumer(settings)
    try:
        metadata = consumer.list_topics(timeout=METADATA_SECONDS_MAX)
    except KafkaException as error:
        raise CommandFailed(f"what listens at {bootstrap} does not answer as a broker") from error
    partitions = require_topic(metadata, topic)
    if group is None or start is not None:
        starts = starting_offsets(consumer, topic, partitions, OFFSET_BEGINNING if start is None else start)
    if group is None:
        consumer.assign([TopicPartition(topic, index, offset) for index, offset in starts.items()])
    elif start is None:
        consumer.subscribe([topic])
    else:
        consumer.subscribe([topic], on_assign=start_at(starts))
    return consumer


def starting_offsets(consumer: Consumer, topic: str, partitions: list[int], start: int) -> dict[int, int]:
    """Where to start in each partition. One that is shorter than the others starts at its end."""
    if start < 0:
        return dict.fromkeys(partitions, start)
    ranges = {}
    for index in partitions:
        ranges[index] = consumer.get_watermark_offsets(TopicPartition(topic, index), METADATA_SECONDS_MAX)
    if not any(first <= start <= end for first, end in ranges.values()):
        raise CommandFailed(f"no partition of {topic} has offset {start}")
    return {index: min(max(start, first), end) for index, (first, end) in ranges.items()}


def start_at(starts: dict[int, int]) -> Callable[[Consumer, list[TopicPartition]], None]:
    """A callback for a member that shall not go on where the group stopped, but begin at `starts`."""
    seen: set[int] = set()

    def on_assign(consumer: Consumer, assigned: list[TopicPartition]) -> None:
        for partition in assigned:
            if partition.partition in starts and partition.partition not in seen:
                seen.add(partition.partition)
                partition.offset = starts[partition.partition]
        consumer.assign(assigned)

    return on_assign


def next_messages(consumer: Consumer, number_max: int) -> list[Message]:
    """Waits for one message, then takes what else is there; empty if none came for a while."""
    first = consumer.poll(POLL_SECONDS)
    if first is None:
        return []
    batch = [first, *consumer.consume(number_max - 1, timeout=0)] if number_max > 1 else [first]
    for message in batch:
        error = message.error()
        if error is not None and not error.retriable():
            raise CommandFailed(error_line(error))
    return [message for message in batch if message.error() is None]


def print_messages(messages: list[Message], json: bool) -> None:
    if messages:
        lines = [as_json(message) if json else (message.value() or b"") for message in messages]
        sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
        sys.stdout.buffer.flush()


def as_json(message: Message) -> bytes:
    """One message as JSON; bytes that are not UTF-8 are shown with replacement characters."""
    kind, timestamp = message.timestamp()
    shown = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
        "key": as_text(message.key()),
        "value": as_text(message.value()),
        "headers": [[header[0], as_text(header[1])] for header in message.headers() or []],
    }
    return json_module.dumps(shown, ensure_ascii=False).encode()


def as_text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
