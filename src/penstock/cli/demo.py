"""`penstock demo`: a broker, a producer and a consumer group at work, in one terminal.

Everything is real: the broker is a child process, the clients are librdkafka. The data goes to a temporary
folder that is removed at the end.
"""

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Annotated

import typer
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.cli.child import temporary_broker
from penstock.cli.kafka import (
    BATCH_MESSAGES_MAX,
    POLL_SECONDS,
    REQUEST_SECONDS_MAX,
    answers,
    client_config,
    errors_as_lines,
)
from penstock.cli.output import CommandFailed, counted
from penstock.cli.workload import (
    STALL_SECONDS_MAX,
    Headers,
    Writer,
    require_no_error,
    wait_for_topic,
)

TOPIC = "positions"
GROUP = "map"
PARTITIONS = 4
MEMBERS = 2
CARS = 500
SECONDS = 5.0
PRINT_SECONDS = 1.0


def register(app: typer.Typer) -> None:
    app.command()(demo)


@dataclass
class Progress:
    """What happened so far. Each field has one writer: the producer's thread or that member's."""

    acknowledged: int = 0
    read: Counter[str] = field(default_factory=Counter)
    partitions: dict[str, list[int]] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)


def demo(
    seconds: Annotated[float, typer.Option(min=0.5, help="How long cars send their positions.")] = SECONDS,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Do not open the console.")] = False,
) -> None:
    """Start a broker, send the positions of cars to it, and read them in a group of two members."""
    del no_browser  # there is no console to open yet; the option is there for scripts that will meet one
    say(f"starting a broker, {TOPIC!r} with {PARTITIONS} partitions, {MEMBERS} consumers in group {GROUP!r}")
    with temporary_broker() as broker:
        say(f"broker {broker.pid} serves kafka={broker.bootstrap} http={broker.http}")
        admin = AdminClient(client_config(broker.bootstrap))
        topic = NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        answers(admin.create_topics([topic], request_timeout=REQUEST_SECONDS_MAX))
        wait_for_topic(admin, TOPIC, PARTITIONS)
        progress = Progress()
        start = time.monotonic()
        with display(progress):
            total = exchange(broker.bootstrap, seconds, progress)
        took = time.monotonic() - start
    for member in sorted(progress.read):
        owned = ", ".join(map(str, progress.partitions[member]))
        say(f"{member} read {counted(progress.read[member], 'message')} from partitions {owned}")
    say(f"{counted(total, 'message')} written and read in {took:.1f} s: {total / took:,.0f} per second")
    say("the broker has stopped; its data is gone")


def exchange(bootstrap: str, seconds: float, progress: Progress) -> int:
    """Members read while the producer writes, until all that was written has been read."""
    done = threading.Event()
    members = [
        threading.Thread(target=run_member, args=(bootstrap, f"member-{number}", progress, done))
        for number in range(1, MEMBERS + 1)
    ]
    for member in members:
        member.start()
    try:
        wait_for_members(progress)
        writer = Writer(bootstrap)

        def notice() -> None:
            progress.acknowledged = writer.acknowledged

        total = writer.write(TOPIC, positions_of_cars(seconds), notice).messages
        wait_for_all(progress, total)
    finally:
        done.set()
        for member in members:
            member.join()
    return total


def run_member(bootstrap: str, name: str, progress: Progress, done: threading.Event) -> None:
    """Whatever goes wrong is handed to the main thread, which is waiting for messages."""
    try:
        with errors_as_lines():
            read_as_member(bootstrap, name, progress, done)
    except Exception as failure:
        progress.failures.append(failure)


def read_as_member(bootstrap: str, name: str, progress: Progress, done: threading.Event) -> None:
    settings = client_config(
        bootstrap, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=True
    ) | {"client.id": name}
    with closing(Consumer(settings)) as consumer:
        consumer.subscribe([TOPIC])
        while not done.is_set():
            for message in consumer.consume(BATCH_MESSAGES_MAX, timeout=POLL_SECONDS):
                require_no_error(message)
                progress.read[name] += 1
            progress.partitions[name] = sorted(each.partition for each in consumer.assignment())


def wait_for_members(progress: Progress) -> None:
    deadline = time.monotonic() + STALL_SECONDS_MAX
    while sum(map(bool, progress.partitions.values())) < MEMBERS:
        require_going_on(progress, deadline, "the consumers did not share the partitions")


def wait_for_all(progress: Progress, total: int) -> None:
    read, deadline = 0, time.monotonic() + STALL_SECONDS_MAX
    while read < total:
        now_read = sum(progress.read.values())
        if now_read > read:
            read, deadline = now_read, time.monotonic() + STALL_SECONDS_MAX
        require_going_on(progress, deadline, f"only {read:,} of {total:,} messages arrived")


def require_going_on(progress: Progress, deadline: float, otherwise: str) -> None:
    if progress.failures:
        raise progress.failures[0]
    if time.monotonic() > deadline:
        raise CommandFailed(otherwise)
    time.sleep(POLL_SECONDS)


def positions_of_cars(seconds: float) -> Iterator[tuple[bytes, bytes, Headers]]:
    """Cars on a circle, each with its id as key, so that the positions of one car stay in order."""
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        for car in range(CARS):
            angle = (car * 7 + step) % 360
            value = b'{"car": %d, "angle": %d, "step": %d}' % (car, angle, step)
            yield b"car-%d" % car, value, [("step", b"%d" % step)]
        step += 1
        # 50 steps a second: a demonstration, not a benchmark.
        time.sleep(0.02)


def say(line: str) -> None:
    print(line, flush=True)


class display:  # noqa: N801 - used as a function
    """Shows progress while the block runs: a live line on a terminal, a line a second elsewhere."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._live if sys.stdout.isatty() else self._plain)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_exception: object) -> None:
        self._done.set()
        self._thread.join()

    def _line(self) -> str:
        read = ", ".join(
            f"{member} {self._progress.read[member]:,}" for member in sorted(self._progress.partitions)
        )
        return f"acknowledged {self._progress.acknowledged:,}; read {read or 'nothing yet'}"

    def _plain(self) -> None:
        while not self._done.wait(PRINT_SECONDS):
            say(self._line())

    def _live(self) -> None:
        from rich.console import Console

        with Console().status(self._line()) as status:
            while not self._done.wait(POLL_SECONDS):
                status.update(self._line())
