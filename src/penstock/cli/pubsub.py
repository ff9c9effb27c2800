"""`penstock sub`, `unsub`, `put` and `get`: reliable publish/subscribe, one call at a time.

Publishers and subscribers are ids: what they have put and got is kept by the cluster, so each call goes on
where the last one stopped. `get` prints first and moves the position then. Killed in between, it prints the
same message again; it never leaves one out.
"""

import json as json_module
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from penstock.cli.kafka import BATCH_MESSAGES_MAX, require_reachable
from penstock.cli.options import BOOTSTRAP, Bootstrap, Json, check_name
from penstock.cli.output import CommandFailed, discard_output, print_json
from penstock.client import Message, PenstockError, Publisher, Subscriber
from penstock.client.pubsub.messages import check_id
from penstock.client.pubsub.numbering import SEQ_MAX

WAIT_S_MAX = 10 * 365 * 86_400


def check_option(value: str) -> str:
    try:
        return check_id(value, "publisher or subscriber")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.", callback=check_name)]
PublisherId = Annotated[
    str,
    typer.Option("--id", metavar="P", help="Who puts: any name that stays the same.", callback=check_option),
]
SubscriberId = Annotated[
    str,
    typer.Option("--id", metavar="S", help="Who gets: any name that stays the same.", callback=check_option),
]


def register(app: typer.Typer) -> None:
    app.command()(sub)
    app.command()(unsub)
    app.command()(put)
    app.command()(get)


def sub(topic: Topic, id: SubscriberId, bootstrap: Bootstrap = BOOTSTRAP) -> None:
    """Subscribe: every message that is put into the topic from now on can be got, until `unsub`."""
    with subscriber(id, bootstrap) as opened:
        opened.subscribe(topic)


def unsub(topic: Topic, id: SubscriberId, bootstrap: Bootstrap = BOOTSTRAP) -> None:
    """End a subscription. What was not got by now will not come."""
    with subscriber(id, bootstrap) as opened:
        opened.unsubscribe(topic)


def put(
    topic: Topic,
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message.")],
    id: PublisherId,
    seq: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=SEQ_MAX,
            help="The number of the message, to store it once however often it is put. Default: a new one.",
        ),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Put a message, and print its number and its offset once it is stored."""
    with failures_as_lines(bootstrap), Publisher(id, bootstrap) as publisher:
        # What was typed is sent, also if it is not text.
        stored = publisher.put(topic, os.fsencode(message), seq)
    if json:
        print_json({"seq": stored.seq, "offset": stored.offset, "partition": stored.partition})
    else:
        print(f"{stored.seq} {stored.offset}")


def get(
    id: SubscriberId,
    number: Annotated[int, typer.Option("-n", min=1, help="How many messages to get.")] = 1,
    wait: Annotated[
        float, typer.Option(min=0, max=WAIT_S_MAX, metavar="SECONDS", help="How long to wait for them.")
    ] = 1.0,
    bootstrap: Bootstrap = BOOTSTRAP,
    json: Json = False,
) -> None:
    """Print the next messages of the subscriber, one a line; nothing if there are none."""
    if sys.stdout is None:
        raise CommandFailed("standard output is closed")
    deadline = time.monotonic() + wait
    with subscriber(id, bootstrap) as opened:
        try:
            while number > 0:
                left = max(0.0, deadline - time.monotonic())
                with opened.receive_many(min(number, BATCH_MESSAGES_MAX), left) as messages:
                    print_messages(messages, json)
                    number -= len(messages)
                if not messages:
                    break
        except BrokenPipeError:
            discard_output()  # nobody reads on (`| head`), and what nobody took comes again


def print_messages(messages: list[Message], json: bool) -> None:
    """Out of this process when it returns: only then positions move."""
    lines = [as_json(message) if json else message.value for message in messages]
    sys.stdout.buffer.write(b"".join(line + b"\n" for line in lines))
    sys.stdout.buffer.flush()


def as_json(message: Message) -> bytes:
    """One message as JSON; bytes that are not UTF-8 are shown with replacement characters."""
    value = message.value.decode(errors="replace")
    shown = {"topic": message.topic, "offset": message.offset, "value": value}
    return json_module.dumps(shown, ensure_ascii=False).encode()


@contextmanager
def subscriber(name: str, bootstrap: str) -> Iterator[Subscriber]:
    with failures_as_lines(bootstrap), Subscriber(name, bootstrap) as opened:
        yield opened


@contextmanager
def failures_as_lines(bootstrap: str) -> Iterator[None]:
    require_reachable(bootstrap)
    try:
        yield
    except (PenstockError, ValueError) as error:
        raise CommandFailed(str(error)) from error
