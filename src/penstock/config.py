"""What a node is told at its start: one immutable value, passed down, never global."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from penstock.groups.limits import GroupLimits
from penstock.hosts import loopback_of
from penstock.transactions.limits import TransactionLimits

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Every queue and buffer of the broker has a limit, and every limit a name."""

    frame_bytes_max: int = 100 * MIB
    """A longer request closes its connection, as Kafka's `socket.request.max.bytes`."""
    request_bytes_max: int = 4 * MIB
    """For requests other than Produce, whose many small fields cost far more memory than bytes."""
    connection_bytes_max: int = 32 * MIB
    """Requests read and not answered plus answers not sent, per connection; over it, reading stops."""
    connection_requests_max: int = 100
    """Requests of one connection that are not answered."""
    total_bytes_max: int = 512 * MIB
    """The same bytes over all connections."""
    connections_max: int = 10_000
    """Of clients; other nodes have their own, below."""
    connections_reserved: int = 200
    """More connections, for other nodes alone, when clients hold all of theirs."""
    connections_per_address_max: int = 10_000
    """As Kafka's `max.connections.per.ip`."""
    trial_ms_max: int = 5_000
    """How long a connection among the reserved ones may take to show that it is another node's."""
    fetch_response_bytes_max: int = 55 * MIB
    """As Kafka's `fetch.max.bytes`; a first batch may exceed it so that readers always get on."""
    fetch_wait_ms_max: int = 300_000
    """The longest a fetch may wait, whatever the client asks for."""
    frame_stall_ms_max: int = 30_000
    """A started frame must go on at least this often."""
    idle_ms_max: int = 600_000
    """As Kafka's `connections.max.idle.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """How patient nodes are with each other. Safety does not depend on any of it."""

    broker_session_ms: int = 2_000
    """A broker that the controller has not heard of for this long is fenced."""
    broker_heartbeat_ms: int = 500
    replica_lag_ms_max: int = 3_000
    """As `replica.lag.time.max.ms`: a follower that has not caught up for this long is not in sync."""
    replica_fetch_wait_ms: int = 500
    replica_fetch_bytes_max: int = 10 * MIB
    metadata_snapshot_records: int = 10_000
    """After so many records of the metadata log a node writes down what they add up to, and forgets them."""
    controller_election_ms_min: int = 1_000
    controller_election_ms_max: int = 2_000
    """A controller that has not heard from the active one for a time between the two asks for votes."""
    flush_ms_max: int = 30_000
    """A replica whose disk has not answered for this long is out of service; its broker goes on."""
    balancer_grace_ms: int = 30_000
    """How long a replica is away, or brokers hold unequally many, before the balancer does anything."""
    balancer_calm_ms: int = 10_000
    """How long a preferred leader has been in sync, and not busy, before leadership returns to it."""
    balancer_window_ms: int = 60_000
    """For so long the balancer leaves a partition alone that it has moved."""
    balancer_busy_percent: int = 70
    """Of its time: above it a broker gives leadership away."""
    balancer_room_percent: int = 60
    """As busy a broker may become by what it is given."""
    balancer_calm_percent: int = 50
    """As busy a preferred leader may become by what returns to it."""
    controller_request_ms_max: int = 5_000
    """How long a broker tries to reach the controller for a client's request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    node_id: int = 1
    roles: frozenset[str] = frozenset({"broker", "controller"})
    controllers: Mapping[int, tuple[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    """Where each controller listens; none: this node is the only one."""
    cluster_id: str | None = None
    """To be used when the data folder is new; otherwise the first controller makes one up."""
    supervisor: Path | None = None
    """The folder of the local cluster whose supervisor the active controller keeps alive."""
    host: str = "127.0.0.1"
    port: int = 9092
    advertised_host: str | None = None
    advertised_port: int | None = None
    rack: str | None = None
    data: Path = Path("penstock-data")
    storage: str = "file"
    """`file`, `memory`, or the address of a PostgreSQL database: not to be shown, it may hold a password."""
    flush: str = "commit"
    """`commit`: an acknowledgement means on disk; `os`: it means handed to the operating system."""
    insecure: bool = False
    """Whether it is meant that other machines reach a node that asks nobody who they are."""
    http_host: str | None = None
    """Where the HTTP endpoint listens. It asks for no token: unless told otherwise, on this machine alone."""
    http_names: tuple[str, ...] = ()
    """Names by which it may be asked, besides the node's own."""
    http_port: int | None = 8080
    auto_create_topics: bool = True
    offsets_topic_partitions: int = 16
    transactions_topic_partitions: int = 16
    topic_defaults: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Defaults of topic configs, by their Kafka names."""
    limits: Limits = field(default_factory=Limits)
    groups: GroupLimits = field(default_factory=GroupLimits)
    transactions: TransactionLimits = field(default_factory=TransactionLimits)
    cluster: ClusterLimits = field(default_factory=ClusterLimits)
    retention_check_ms: int = 300_000
    """As Kafka's `log.retention.check.interval.ms`."""
    compaction_check_ms: int = 15_000
    """As Kafka's `log.cleaner.backoff.ms`."""
    high_watermark_checkpoint_ms: int = 5_000
    """As Kafka's `replica.high.watermark.checkpoint.interval.ms`."""
    repair_check_ms: int = 10_000
    """How often to look whether something is damaged that other replicas have."""
    scrub_interval_ms: int = 7 * 24 * 3_600_000
    """Between the beginnings of two rounds over all closed segments."""
    scrub_bytes_per_second: int = 8 * MIB
    """At most read by a round."""
    balancer: str = "on"
    """`on`, `off`, or `propose`: it only says what it would do. The active controller's counts."""
    log_level: str = "info"

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def http_address(self) -> str:
        return self.http_host or loopback_of(self.host)

    @property
    def is_alone(self) -> bool:
        """A cluster of this one node. The only controller of others lists itself, as they do."""
        return not self.controllers and self.is_controller
