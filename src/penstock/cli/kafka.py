"""Kafka clients of the commands. Nothing here knows whether the other side is Penstock or Apache Kafka.

librdkafka goes on trying to connect for ever and reports that on its own log lines. A command wants one line
and soon: the addresses are tried with a plain connection first, and librdkafka's log is switched off.
"""

from __future__ import annotations

import re
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.cli.output import CommandFailed
from penstock.client.kafka.cluster import SILENCE_MS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future

    from confluent_kafka.admin._metadata import ClusterMetadata

T = TypeVar("T")

CONNECT_SECONDS_MAX = 3.0
REQUEST_SECONDS_MAX = 10.0
METADATA_SECONDS_MAX = 5.0
POLL_SECONDS = 0.1
"""How long a call into librdkafka may take: signals are noticed between calls."""
BATCH_MESSAGES_MAX = 1_000
INTERNAL_PREFIX = "__"

_EMERGENCY = 0
SILENT = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN)
"""How librdkafka says that nobody answered."""


def client_config(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Settings of a client; keyword names with underscores stand for Kafka's names with dots."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"bootstrap.servers": bootstrap, "client.id": "penstock-cli", "log_level": _EMERGENCY, **named}


def require_reachable(bootstrap: str) -> None:
    """Returns if something listens on one of the addresses; CommandFailed with the reason otherwise."""
    reasons = []
    for address in bootstrap.split(","):
        host, port = split_address(address)
        try:
            socket.create_connection((host, port), timeout=CONNECT_SECONDS_MAX).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        except UnicodeError:
            reasons.append(f"{host}:{port}: not a name of a host")
        else:
            return
    raise CommandFailed(f"no broker reachable at {'; '.join(reasons)}")


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, also `[::1]:port` and with a protocol in front; Kafka's port if there is none."""
    text = address.strip().rpartition("://")[2]
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, "9092"
    host = host.removeprefix("[").removesuffix("]")
    if not host or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65_536:
        raise CommandFailed(f"{address.strip()!r} is not an address of the form HOST:PORT")
    return host, int(port)


def connect(bootstrap: str) -> AdminClient:
    require_reachable(bootstrap)
    return AdminClient(client_config(bootstrap, socket_timeout_ms=SILENCE_MS_MAX))


def cluster_metadata(admin: AdminClient, bootstrap: str) -> ClusterMetadata:
    with errors_as_lines():
        try:
            return admin.list_topics(timeout=METADATA_SECONDS_MAX)
        except KafkaException as error:
            if error_code(error) in SILENT:
                raise CommandFailed(f"what listens at {bootstrap} does not answer as a broker") from error
            raise


def require_topic(metadata: ClusterMetadata, topic: str) -> list[int]:
    """The partitions of a topic that exists."""
    found = metadata.topics.get(topic)
    if found is None:
        raise CommandFailed(f"topic {topic!r} does not exist")
    return sorted(found.partitions)


def require_partitions(metadata: ClusterMetadata, topic: str, number: int | None) -> list[int]:
    """The partitions of a topic, or the one of this number; they exist."""
    found = require_topic(metadata, topic)
    if number is None:
        return found
    if number not in found:
        raise CommandFailed(f"topic {topic!r} has no partition {number}")
    return [number]


def answer(future: Future[T]) -> T:
    """The result of an admin request, or CommandFailed in the broker's words."""
    with errors_as_lines():
        return future.result(timeout=REQUEST_SECONDS_MAX + 5)


def answers(futures: Mapping[str, Future[T]]) -> dict[str, T]:
    return {name: answer(future) for name, future in futures.items()}


@contextmanager
def errors_as_lines() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise CommandFailed(error_line(error)) from error
    except TimeoutError as error:
        raise CommandFailed("the broker did not answer in time") from error


def error_code(error: KafkaException) -> int | None:
    first = error.args[0] if error.args else None
    return first.code() if isinstance(first, KafkaError) else None


def error_line(error: KafkaException | KafkaError) -> str:
    """What went wrong, as short as librdkafka and the broker say it."""
    first = error.args[0] if isinstance(error, KafkaException) and error.args else error
    if isinstance(first, KafkaError):
        name, text = first.name(), first.str() or ""
        return f"{text.rstrip('.')} ({name})" if text else name
    return str(first)
