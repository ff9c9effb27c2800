"""The traffic client: what a car, or somebody who looks after many, does with the topics of the map."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from penstock.client.errors import (
    ClosedError,
    InvalidPositionError,
    InvalidTopicError,
    ParticipationRequiredError,
    TopicClusterDoesNotExistError,
)
from penstock.client.kafka.topic_clusters import Cluster, TopicClusters
from penstock.client.types import DEFAULT_TIMEOUT_S
from penstock.traffic.brokers import brokers_at
from penstock.traffic.city_map import current_map
from penstock.traffic.contributions import Contributions
from penstock.traffic.log_reader import LogReader
from penstock.traffic.position import (
    Position,
    car_name,
    encode_positions,
    now_ms,
    require_not_ahead,
)
from penstock.traffic.topics import (
    CONTRIBUTIONS,
    SHARED_PLANS,
    parse_quadrant_topic,
)
from penstock.traffic.writer import Record, RecordWriter

if TYPE_CHECKING:
    from types import TracebackType

    from confluent_kafka import Message

    from penstock.client.topic_plan import TopicPlan
    from penstock.traffic.grid import Grid, Quadrant

log = logging.getLogger("penstock.traffic")


class TrafficClient:
    """Writes positions to the topics of their quadrants, and reads what others wrote.

    >>> from penstock.traffic import Position, TrafficClient
    >>> with TrafficClient("127.0.0.1:9092", car=7) as client:
    ...     client.ensure_topics()
    ...     here = Position(7, lat=49.25, lon=-123.1, speed=31.5, heading=90.0, ts=1_700_000_000_000)
    ...     topic = client.topic(here)
    ...     client.write(topic, here)
    ...     topic, [position.speed for position in client.read(topic)]
    ('traffic.r0.c0', [31.5])

    `broker` is one or several addresses of a Kafka cluster, with commas in between. Without a `grid`, the map
    is the one that was published on the cluster, or the default one. Whoever reads must have written a
    position of `car` lately: within the last minute, or as recently as the cluster's rule says (see
    `publish_participation`).

    It connects with the first call that needs to. A broker that is away or a leader that is being elected is
    waited for, up to `timeout_s` seconds in every call; then it is a DisconnectedServerError.

    May be used by several threads at once. Without `close`, it is closed when it is no longer used.
    """

    def __init__(
        self,
        broker: str,
        car: str | int,
        *,
        grid: Grid | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._car = car_name(car)
        self._grid = grid
        self._grid_lock = threading.Lock()
        brokers = brokers_at(broker, timeout_s)
        self._clusters = TopicClusters(brokers)
        self._reader = LogReader(brokers, self._clusters)
        self._writer = RecordWriter(brokers)
        self._contributions = Contributions(brokers, self._clusters, self._reader)
        self._closing = weakref.finalize(self, _close, self._writer, self._contributions, self._reader)

    @property
    def car(self) -> str:
        """Who this client is, for the rule of participation."""
        return self._car

    @property
    def grid(self) -> Grid:
        """The map; asked for once."""
        self._require_open()
        with self._grid_lock:
            if self._grid is None:
                self._grid = current_map(self._clusters, self._reader).grid
            return self._grid

    def topic(self, place: Position | tuple[float, float]) -> str:
        """The topic of the quadrant that a position, or a latitude and longitude, is in."""
        lat, lon = (place.lat, place.lon) if isinstance(place, Position) else place
        return self.grid.topic(lat, lon)

    def create_topic(self, name: str) -> Cluster:
        """Makes the topic of a quadrant, or one of another name for positions from anywhere.

        All its partitions are led by the same broker, and different quadrants by different ones, where there
        are as many. It has as many replicas as `default.replication.factor` says, or as there are brokers.

        >>> from penstock.traffic import TrafficClient
        >>> with TrafficClient("127.0.0.1:9092", car=7) as client:
        ...     client.create_topic("rehearsal").min_replicas
        ...     client.create_topic("rehearsal")
        Traceback (most recent call last):
        penstock.client.errors.DuplicateTopicNameError: topic 'rehearsal' exists already

        A quadrant that the map does not have is a TopicClusterDoesNotExistError.
        """
        self._require_open()
        self._clusters.create(self._plan(name))
        return self._clusters.describe(name)

    def ensure_topics(self) -> None:
        """Creates the topics of all quadrants that are missing."""
        plans = [self._plan(name) for name in self.grid.topics()]
        self._clusters.ensure([*plans, SHARED_PLANS[CONTRIBUTIONS]])

    def get_cluster(self, name: str) -> Cluster:
        """Who serves the topic.

        >>> from penstock.traffic import TrafficClient
        >>> with TrafficClient("127.0.0.1:9092", car=7) as client:
        ...     client.create_topic("parade") == client.get_cluster("parade")
        ...     client.get_cluster("traffic.r7.c7")
        Traceback (most recent call last):
        penstock.client.errors.TopicClusterDoesNotExistError: there is no topic 'traffic.r7.c7'

        InsufficientReplicasError if there is no replica that can lead it.
        """
        self._require_open()
        return self._clusters.describe(_named(name))

    def get_current_location_cluster(self, place: Position | tuple[float, float]) -> Cluster:
        """Who serves the quadrant that a position, or a latitude and longitude, is in.

        >>> from penstock.traffic import TrafficClient
        >>> TrafficClient("127.0.0.1:9092", car=7).get_current_location_cluster((0.0, 0.0))
        Traceback (most recent call last):
        penstock.client.errors.TopicClusterDoesNotExistError: latitude 0.0, longitude 0.0 is outside the map
        """
        return self.get_cluster(self.topic(place))

    def write(self, topic: str, positions: Position | Iterable[Position]) -> None:
        """Stores positions, and returns once all are acknowledged by as many replicas as the topic asks for.

        Everything is checked before anything is sent: a position in another quadrant than that of the topic,
        or with a `ts` more than a minute ahead, is an InvalidPositionError, and one outside the map a
        TopicClusterDoesNotExistError. Old ones are taken.

        While a leader is elected or a broker is away it waits, and nothing is stored twice. An error after
        `timeout_s` seconds says how many were not acknowledged; whether those are stored is not known.
        InsufficientReplicasError: too few replicas are in sync to promise that positions survive.
        """
        batch = _batch(positions)
        self._require_here(_named(topic), batch)
        self._write({topic: batch})

    def write_many(self, positions: Iterable[Position]) -> None:
        """As `write`, each position to the topic of its own quadrant, all of them at once."""
        batch = _batch(positions)
        topic_of = self.grid.topic
        topics: dict[str, list[Position]] = {}
        for position in batch:
            name = topic_of(position.lat, position.lon)
            try:
                topics[name].append(position)
            except KeyError:
                topics[name] = [position]
        self._write(topics)

    def write_raw(self, topic: str, records: Iterable[Record]) -> None:
        """Stores keys and values as they are, whatever they are, for tests of those who read them.

        It is not a contribution.
        """
        self._require_open()
        self._clusters.require(_named(topic))
        self._writer.write([(topic, list(records))])

    def read(self, topic: str) -> list[Position]:
        """Everything that was written to the topic before the call and is still kept, by `ts`.

        Positions of the same `ts` come in the order of their partitions' logs, so those of one car as it
        wrote them; one that was written twice comes twice. What the topic's retention has removed is not
        there any more and not missed. Records that are not positions, from other clients, are left out; how
        many is logged (`penstock.traffic`, level INFO).

        DataNotAvailableError: a partition has no leader or its data cannot be read, for `timeout_s` seconds.
        Nothing is returned then: what is returned is always complete.
        ParticipationRequiredError: the car of this client has not contributed lately, neither through this
        client nor through another one, or a gateway.
        """
        self._require_open()
        self._clusters.require(_named(topic))
        if not self._contributions.may_read(self._car, now_ms()):
            raise ParticipationRequiredError(
                f"car {self._car!r} has not written a position lately: traffic is for those who contribute"
            )
        broken = 0

        def parse(message: Message) -> Position | None:
            nonlocal broken
            try:
                return Position.from_json(message.value() or b"")
            except InvalidPositionError:
                broken += 1
                return None

        found = self._reader.read(topic, parse)
        if broken:
            log.info("%d records of topic %s are not positions", broken, topic)
        found.sort(key=attrgetter("ts"))
        return found

    def close(self) -> None:
        """Ends connections and threads. What `write` returned for is stored already."""
        self._closing()

    def _write(self, topics: dict[str, list[Position]]) -> None:
        now = now_ms()
        for topic, batch in topics.items():
            _require_not_ahead(batch, now)
            self._clusters.require(topic)
        if not any(topics.values()):
            return
        try:
            self._writer.write([(topic, _records(batch)) for topic, batch in topics.items()])
        except TopicClusterDoesNotExistError:
            for topic in topics:
                self._clusters.forget(topic)
            raise
        cars = {position.car for batch in topics.values() for position in batch}
        self._contributions.record(cars, now_ms())

    def _require_here(self, topic: str, batch: Sequence[Position]) -> None:
        grid = self.grid
        if parse_quadrant_topic(topic) is None:
            return  # not a quadrant: it takes positions from anywhere
        wanted = self._quadrant(topic)
        for position in batch:
            found = grid.topic(position.lat, position.lon)
            if found != topic:
                raise InvalidPositionError(
                    "place",
                    f"latitude {position.lat}, longitude {position.lon} is in {found}, not in {wanted}",
                )

    def _quadrant(self, topic: str) -> Quadrant:
        found = self.grid.quadrant_of_topic(topic)
        if found is None:
            raise TopicClusterDoesNotExistError(f"the map has no quadrant {topic!r}")
        return found

    def _plan(self, name: str) -> TopicPlan:
        if _named(name) in SHARED_PLANS:
            raise InvalidTopicError(f"topic {name!r} is for something else")
        if parse_quadrant_topic(name) is not None:
            self._quadrant(name)
        return self.grid.plan_of_topic(name)

    def _require_open(self) -> None:
        if not self._closing.alive:
            raise ClosedError("the client is closed")

    def __enter__(self) -> TrafficClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(writer: RecordWriter, contributions: Contributions, reader: LogReader) -> None:
    writer.close()
    contributions.close()
    reader.close()


def _named(topic: str) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is named by a str, not by {topic!r}")
    return topic


def _batch(positions: Position | Iterable[Position]) -> list[Position]:
    batch = [positions] if isinstance(positions, Position) else list(positions)
    for kind in set(map(type, batch)):
        if not issubclass(kind, Position):
            raise TypeError(f"a position is a Position, not {kind.__name__}")
    return batch


def _require_not_ahead(batch: Sequence[Position], now: int) -> None:
    if batch:
        require_not_ahead(max(batch, key=attrgetter("ts")), now)


def _records(batch: Sequence[Position]) -> list[Record]:
    """The key is the car."""
    return list(zip([position.car for position in batch], encode_positions(batch), strict=True))
