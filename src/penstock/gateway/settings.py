"""What a gateway is told when it starts. Every limit has a name here, and `--limit NAME=VALUE` sets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayLimits:
    """Numbers that bound what one client, or all of them together, can take."""

    body_bytes_max: int = 8 * MIB
    """Of one request. A message of 1 MiB may take six times that in JSON."""
    head_bytes_max: int = 64 * 1024
    """Of the request line and the headers together."""
    request_seconds_max: float = 30.0
    """For a whole request to arrive, from its first byte on; for the first one, from the connection on."""
    idle_seconds_max: float = 60.0
    """How long a connection is kept for the next request."""
    connections_max: int = 4_096
    connections_per_address_max: int = 2_048
    requests_per_second_max: float = 1_000.0
    """Of one client address, on average; 0 is no limit. Clients on this machine are not limited."""
    requests_burst_max: int = 2_000
    """How many of them may come at once."""
    addresses_max: int = 10_000
    """How many client addresses are remembered for that."""
    stop_seconds_max: float = 5.0
    """For open requests to end when the gateway stops; streams are closed at once."""

    kafka_seconds_max: float = 30.0
    """How long a request waits for brokers, through elections and restarts, before the answer is 503."""
    producer_queue_bytes_max: int = 256 * MIB
    """Of messages that brokers have not acknowledged yet; over it, requests are answered with 503."""

    read_ahead_bytes: int = 64 * 1024
    """Of one partition, read at once for a consumer that takes one message after the other."""
    read_ahead_bytes_max: int = 64 * MIB
    """For all consumers together."""
    checkpoint_records: int = 10_000
    """After so many records in a partition of positions a checkpoint is written and the rest is removed."""
    produce_index_offsets: int = 20_000
    """How far back a produce request is looked for by its request_id."""
    produce_index_partitions_max: int = 1_000
    """Partitions for which that is remembered."""
    registration_idle_seconds_max: float = 30 * DAY_S
    """After which a producer, a consumer or a client that numbers its messages is forgotten; 0: never. The
    topics that hold them are created with a retention of twice that. All gateways of a cluster must agree."""
    topics_max: int = 20_000
    """Topics of the queue whose partitions are remembered."""

    stream_stall_seconds_max: float = 30.0
    """How long a reader of a stream may take nothing of what it is sent, before it is let go."""
    stream_close_seconds_max: float = 10.0
    """How long it then has to take what was sent before, and the reason; afterwards the connection ends."""
    stream_heartbeat_seconds: float = 15.0
    """Between comments in a stream of events."""
    messages_max: int = 1_000
    """In one answer of the message browser."""
    messages_bytes_max: int = 4 * MIB
    """Of the records behind such an answer; one larger record comes alone."""
    socket_messages_in_flight_max: int = 1_000
    """Messages of one WebSocket that brokers have not acknowledged yet; then the next is not read."""
    socket_bytes_in_flight_max: int = 8 * MIB

    traffic_positions_max: int = 10_000
    """In one request."""
    traffic_cars_max: int = 500_000
    """Cars that are remembered to have contributed; over it, those that did so last."""
    traffic_cells_max: int = 200_000
    """Of the heat map, in all windows that are kept."""

    flights_jobs_max: int = 10_000
    """Flights jobs that are remembered; over it, those that are done and oldest are forgotten."""
    flights_bodies_bytes_max: int = 64 * MIB
    """Of chunks that are being read or written at once; over it, requests are answered with 429."""
    flights_job_behind_bytes_max: int = 1024 * MIB
    """Of one job, written and not yet taken by the service; over it, chunks are answered with 429."""
    flights_behind_bytes_max: int = 4096 * MIB
    """Of all jobs together."""

    @property
    def registration_idle_ms_max(self) -> int:
        return round(self.registration_idle_seconds_max * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    bootstrap: str = "127.0.0.1:9092"
    host: str = "127.0.0.1"
    http_port: int = 8080
    http_token_file: Path | None = None
    no_auth: bool = False
    """Serve other machines without tokens."""
    hosts: tuple[str, ...] = ()
    """Names of the gateway, besides `host`; those of requests are checked where there are no tokens."""
    cors_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the gateway, besides its own."""
    rack: str | None = None
    admin_url: str | None = None
    """Where the node or the supervisor answers what the Kafka protocol does not tell."""
    traffic_participation_s: float | None = None
    """Who reads traffic must have contributed a position within so many seconds; 0 lets everybody read. None:
    the rule that was published on the cluster, or a minute."""
    log_level: str = "info"
    limits: GatewayLimits = field(default_factory=GatewayLimits)
