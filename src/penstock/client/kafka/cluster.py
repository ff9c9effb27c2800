"""What a client asks the brokers beside its messages, be they Penstock or Apache Kafka.

A broker that restarts or a leader that moves is not an error: a question is asked again until it is answered
or the client's time limit is over. What cannot become better fails at once.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from penstock.client.errors import DisconnectedServerError
from penstock.client.kafka.failures import UNKNOWN_TOPIC, as_error, error_code, error_line, passes
from penstock.client.kafka.skipping_consumer import SkippingConsumer

if TYPE_CHECKING:
    from confluent_kafka.admin import ClusterMetadata

T = TypeVar("T")

REQUEST_S_MAX: Final = 5.0
SILENCE_MS_MAX: Final = 5_000
"""Of a broker. librdkafka asks the one again that it asked last, until it has waited for it for so long."""
CONNECT_S_MAX: Final = 1.0
RETRY_PAUSE_S: Final = 0.1
UNKNOWN_TOPIC_S: Final = 3.0
"""For so long a topic may be unknown to a broker that has not heard of its creation yet."""
KAFKA_PORT: Final = 9092
ADDRESS: Final = r"(\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+)(?::([0-9]{1,5}))?"
PORTS: Final = range(1, 65_536)
CLIENT_ID: Final = "penstock-client"

_EMERGENCY: Final = 0
_BROKER_DEFAULT: Final = -1


class Cluster:
    def __init__(self, bootstrap: str, timeout_s: float) -> None:
        split_addresses(bootstrap)
        self.bootstrap = bootstrap
        self.timeout_s = timeout_s
        self._admin: AdminClient | None = None

    def with_timeout(self, timeout_s: float) -> Cluster:
        """The same, for those who wait for less or for longer."""
        other = Cluster(self.bootstrap, timeout_s)
        other._admin = self.admin()
        return other

    def settings(self, **own: Any) -> dict[str, Any]:
        """Settings of a client; keyword names with underscores stand for Kafka's names with dots."""
        named = {name.replace("_", "."): value for name, value in own.items()}
        return {
            "bootstrap.servers": self.bootstrap,
            "client.id": CLIENT_ID,
            "log_level": _EMERGENCY,  # what matters comes as an error
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 500,
            **named,
        }

    def client(self, kind: Callable[[dict[str, Any]], T], **own: Any) -> T:
        try:
            return kind(self.settings(**own))
        except KafkaException as error:
            # The addresses are the one setting that is not ours.
            raise ValueError(f"broker {self.bootstrap!r}: {error_line(error)}") from error

    def reader(
        self, group_id: str, on_skip: Callable[[tuple[str, int], int], None] | None = None, **own: Any
    ) -> SkippingConsumer:
        """Of committed messages, at places that it is told, whatever the group has committed."""
        return self.client(
            partial(SkippingConsumer, on_skip=on_skip),
            group_id=group_id,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            enable_partition_eof=True,
            auto_offset_reset="error",
            isolation_level="read_committed",
            check_crcs=True,
            fetch_queue_backoff_ms=5,
            socket_timeout_ms=SILENCE_MS_MAX,
            **own,
        )

    def ensure_topics(self, topics: tuple[str, ...]) -> None:
        """Creates those that are missing, with one partition and the cluster's number of replicas."""
        what = f"topics {', '.join(topics)} cannot be used"
        there = self.ask(self.metadata, what).topics
        for topic in topics:
            if topic not in there:
                self.ask(partial(self.create, topic), f"topic {topic!r} cannot be created")

    def ask(self, request: Callable[[], T], what: str, unknown_s_max: float = UNKNOWN_TOPIC_S) -> T:
        """The first answer that is not a passing failure; a PenstockError that says `what` otherwise."""
        begun = time.monotonic()
        while True:
            try:
                return request()
            except KafkaException as error:
                late = time.monotonic() - begun
                if passes(error):
                    if late >= self.timeout_s:
                        raise self.silence(what, error) from error
                elif error_code(error) not in UNKNOWN_TOPIC or late >= min(unknown_s_max, self.timeout_s):
                    raise as_error(error, what) from error
            time.sleep(RETRY_PAUSE_S)

    def silence(self, what: str, error: KafkaError | KafkaException | None = None) -> DisconnectedServerError:
        """Nobody answered, for as long as this client waits."""
        # librdkafka says only that it did not work; a plain connection tells why.
        reason = unreachable(self.bootstrap) or (error_line(error) if error else "")
        tail = f": {reason}" if reason else ""
        return DisconnectedServerError(
            f"{what}: no answer from {self.bootstrap} for {self.timeout_s:g} s{tail}"
        )

    def lacks_replicas(self, topic: str) -> bool:
        """Whether a partition of the topic has too few replicas, in sync and alive, to be written."""
        metadata = self.metadata()
        found = metadata.topics.get(topic)
        if found is None:
            return False
        # The last ones in sync stay in that set when they die: they are where the data are. And a broker is
        # still named for a moment after it was fenced.
        alive = metadata.brokers.keys()
        in_sync = min(
            (len(alive & set(part.isrs)) if part.leader >= 0 else 0 for part in found.partitions.values()),
            default=0,
        )
        resource = ConfigResource(ResourceType.TOPIC, topic)
        (future,) = self.admin().describe_configs([resource], request_timeout=REQUEST_S_MAX).values()
        return in_sync < int(future.result()["min.insync.replicas"].value)

    def metadata(self) -> ClusterMetadata:
        """Of all topics: asking for one by name would create it, as large as the broker likes."""
        return self.admin().list_topics(timeout=min(REQUEST_S_MAX, self.timeout_s))

    def create(self, topic: str, config: dict[str, str] | None = None) -> None:
        """One request. It is no failure if the topic is there already."""
        new = NewTopic(topic, num_partitions=1, replication_factor=_BROKER_DEFAULT, config=config or {})
        request_s = min(REQUEST_S_MAX, self.timeout_s)
        (future,) = self.admin().create_topics([new], request_timeout=request_s).values()
        try:
            future.result()
        except KafkaException as error:
            if error_code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = self.client(AdminClient, socket_timeout_ms=SILENCE_MS_MAX)
        return self._admin


def split_addresses(bootstrap: str) -> list[tuple[str, int]]:
    """librdkafka would wait for ever for an address that is none."""
    found = []
    for address in bootstrap.split(","):
        parts = re.fullmatch(ADDRESS, address.strip())
        port = int(parts[2] or KAFKA_PORT) if parts else 0
        if parts is None or port not in PORTS:
            raise ValueError(f"broker {address.strip()!r} is not of the form HOST:PORT or http://HOST:PORT")
        found.append((parts[1].strip("[]"), port))
    return found


def unreachable(bootstrap: str) -> str:
    """Why no connection to any of the addresses is possible; empty if one is."""
    reasons = []
    for host, port in split_addresses(bootstrap):
        try:
            socket.create_connection((host, port), timeout=CONNECT_S_MAX).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        except UnicodeError:
            reasons.append(f"{host}:{port}: not the name of a host")
        else:
            return ""
    return "; ".join(reasons)
