"""The traffic client against real brokers: its calls, its errors, and nothing lost when leaders die."""

from __future__ import annotations

import asyncio
import doctest
import importlib
import itertools
import logging
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import NewTopic

from penstock.client.errors import ClosedError, InvalidMessageError, InvalidTopicError
from penstock.traffic import (
    DEFAULT_GRID,
    AsyncTrafficClient,
    BBox,
    DataNotAvailableError,
    DisconnectedServerError,
    DuplicateTopicNameError,
    Grid,
    InsufficientReplicasError,
    InvalidPositionError,
    ParticipationRequiredError,
    Position,
    TopicClusterDoesNotExistError,
    TrafficClient,
    publish_map,
    publish_participation,
    read_map,
    read_participation,
)
from penstock.traffic.position import FUTURE_MS_MAX, now_ms
from penstock.traffic.topics import CONTRIBUTIONS, HEATMAP, MAP
from tests.support.cluster import Cluster
from tests.support.commands import penstock
from tests.support.gateway import GatewayProcess
from tests.support.topics import admin, delete_records, delete_topic
from tests.support.wait import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.broker import BrokerProcess

HASTY_S = 1.0 * PATIENCE
"""Of clients that are to give up."""
PATIENT_S = 60.0 * PATIENCE
GRID = Grid(BBox(0, 0, 10, 10), rows=10, cols=10)
"""Each test has a row of it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers, and the server that knows topics apart from them."""
    with Cluster(tmp_path_factory.mktemp("traffic"), brokers=3, controllers=1) as running:
        yield running


def client_of(cluster: Cluster, car: str | int = 7, **options: Any) -> TrafficClient:
    return TrafficClient(cluster.bootstrap, car, **{"grid": GRID, "timeout_s": PATIENT_S, **options})


def at(row: int, col: int, ts: int, car: str | int = 7) -> Position:
    return Position(car, row + 0.5, col + 0.5, ts=ts)


def topic_of(row: int, col: int) -> str:
    return f"traffic.r{row}.c{col}"


def create_on(cluster: Cluster, topic: str, replicas: list[int]) -> None:
    client = admin(cluster.bootstrap)
    new = NewTopic(topic, 1, replica_assignment=[replicas])
    (future,) = client.create_topics([new]).values()
    future.result(PATIENT_S)


# The calls


def test_write_and_read(cluster: Cluster) -> None:
    first, second = topic_of(0, 0), topic_of(0, 1)
    with client_of(cluster) as client:
        created = client.create_topic(first)
        assert created == client.get_cluster(first) == client.get_current_location_cluster((0.5, 0.5))
        client.create_topic(second)
        client.write(first, [at(0, 0, 3), at(0, 0, 1, car=8), at(0, 0, 2, car="bus")])
        client.write(first, at(0, 0, 0))
        client.write(first, at(0, 0, 0))
        client.write_many(position for position in (at(0, 0, 4), at(0, 1, 5), at(0, 0, 6)))
        assert [(each.car, each.ts) for each in client.read(first)] == [
            ("7", 0),
            ("7", 0),
            ("8", 1),
            ("bus", 2),
            ("7", 3),
            ("7", 4),
            ("7", 6),
        ]
        assert client.read(second) == [at(0, 1, 5)]
        client.write(first, [])
        client.write_many([])
    with pytest.raises(ClosedError):
        client.read(first)
    with pytest.raises(ClosedError):
        client.write(first, at(0, 0, 1))


def test_one_broker_leads_a_quadrant_and_each_broker_some(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        names = [topic_of(1, col) for col in range(3)]
        clusters = [client.create_topic(name) for name in names]
        cluster.wait_healed(names)
    brokers = {node.bootstrap for node in cluster.brokers.values()}
    assert {found.leader for found in clusters} == brokers
    for found in clusters:
        assert {found.leader, *found.followers} == brokers
        assert found.min_replicas == 2
    for name in names:
        leaders = {cluster.partition(name, index)["leader"] for index in range(4)}
        replicas = {tuple(cluster.partition(name, index)["replicas"]) for index in range(4)}
        assert (len(leaders), len(replicas)) == (1, 1)


def test_all_topics_are_made_once(broker: BrokerProcess) -> None:
    with TrafficClient(broker.bootstrap, 7) as client, TrafficClient(broker.bootstrap, 8) as other:
        assert client.grid == DEFAULT_GRID
        client.ensure_topics()
        other.ensure_topics()
        for name in DEFAULT_GRID.topics():
            assert client.get_cluster(name).leader == broker.bootstrap
    topics = admin(broker.bootstrap).list_topics(timeout=PATIENT_S).topics
    assert {name: len(found.partitions) for name, found in topics.items()} == {
        **dict.fromkeys(DEFAULT_GRID.topics(), 4),
        CONTRIBUTIONS: 4,
    }


def test_the_map_of_the_cluster(broker: BrokerProcess) -> None:
    assert read_map(broker.bootstrap).grid == DEFAULT_GRID
    streets = {"type": "FeatureCollection", "features": [{"type": "Feature"}]}
    publish_map(broker.bootstrap, GRID, streets)
    publish_map(broker.bootstrap, GRID, streets)
    found = read_map(broker.bootstrap)
    assert (found.grid, found.streets) == (GRID, streets)
    smaller = Grid(GRID.bbox, rows=1, cols=1)
    publish_map(broker.bootstrap, smaller)
    assert read_map(broker.bootstrap).streets == streets
    with TrafficClient(broker.bootstrap, 7) as client:
        assert client.grid == smaller
        assert client.topic((9.5, 9.5)) == client.topic(at(0, 0, 1)) == "traffic.r0.c0"
        client.write_raw(MAP, [(b"grid", b"{}")])
        with pytest.raises(InvalidMessageError, match="not a map"):
            read_map(broker.bootstrap)


def test_coroutines(cluster: Cluster) -> None:
    topic = topic_of(2, 0)

    async def use() -> list[Position]:
        async with AsyncTrafficClient(cluster.bootstrap, "a", grid=GRID, timeout_s=PATIENT_S) as client:
            created = await client.create_topic(topic)
            assert created == await client.get_cluster(topic)
            assert created == await client.get_current_location_cluster((2.5, 0.5))
            with pytest.raises(DuplicateTopicNameError):
                await client.create_topic(topic)
            with pytest.raises(ParticipationRequiredError):
                await client.read(topic)
            assert await client.topic((2.5, 0.5)) == topic
            assert await client.grid() == GRID
            await asyncio.gather(*(client.write(topic, at(2, 0, ts, car="a")) for ts in range(40)))
            await client.write_many([at(2, 0, 40, car="a")])
            return await client.read(topic)

    assert [position.ts for position in asyncio.run(use())] == list(range(41))


def test_many_threads_share_a_client(cluster: Cluster) -> None:
    topic = topic_of(2, 1)
    with client_of(cluster) as client:
        client.create_topic(topic)

        def write(number: int) -> None:
            for ts in range(20):
                client.write(topic, at(2, 1, ts, car=number))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.write(topic, at(2, 1, 99))
        found = Counter((position.car, position.ts) for position in client.read(topic))
    assert found == Counter([*((str(number), ts) for number in range(8) for ts in range(20)), ("7", 99)])


# What is refused


def test_a_topic_that_is_there_already(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        client.create_topic(topic_of(3, 0))
        with pytest.raises(DuplicateTopicNameError, match=r"'traffic\.r3\.c0' exists already"):
            client.create_topic(topic_of(3, 0))


def test_a_topic_that_does_not_exist(cluster: Cluster) -> None:
    with client_of(cluster) as client:
        for call in (
            lambda: client.get_cluster(topic_of(3, 9)),
            lambda: client.write(topic_of(3, 9), at(3, 9, 1)),
            lambda: client.read(topic_of(3, 9)),
            lambda: client.get_current_location_cluster((3.5, 10.5)),
            lambda: client.get_current_location_cluster((float("nan"), 0.5)),
            lambda: client.create_topic(topic_of(10, 0)),
            lambda: client.write_many([Position(7, 50, 50)]),
        ):
            with pytest.raises(TopicClusterDoesNotExistError):
                call()
    # Asking for it did not make it.
    assert topic_of(3, 9) not in admin(cluster.bootstrap).list_topics(timeout=PATIENT_S).topics


def test_a_topic_that_is_deleted(cluster: Cluster) -> None:
    topic = topic_of(3, 1)
    with client_of(cluster) as client:
        client.create_topic(topic)
        client.write(topic, at(3, 1, 1))
        delete_topic(cluster.bootstrap, topic)
        with pytest.raises(TopicClusterDoesNotExistError):
            client.read(topic)
        client.create_topic(topic)
        assert client.read(topic) == []


def test_nothing_is_written_when_something_is_refused(cluster: Cluster) -> None:
    topic = topic_of(3, 2)
    good = at(3, 2, 1)
    with client_of(cluster) as client:
        client.create_topic(topic)
        client.create_topic(topic_of(3, 3))
        client.write(topic_of(3, 3), at(3, 3, 1))
        with pytest.raises(InvalidPositionError, match=r"^place: .* is in traffic\.r3\.c3"):
            client.write(topic, [good, at(3, 3, 1)])
        with pytest.raises(TopicClusterDoesNotExistError, match="outside the map"):
            client.write(topic, [good, Position(7, 50, 50, ts=1)])
        with pytest.raises(InvalidPositionError, match=r"^ts: .* ahead"):
            client.write(topic, [good, at(3, 2, now_ms() + FUTURE_MS_MAX + 60_000)])
        with pytest.raises(TypeError, match="a position is a Position, not dict"):
            client.write(topic, [good, {"car": 7}])  # type: ignore[list-item]  # what this is about
        for name in (HEATMAP, MAP, CONTRIBUTIONS, "", "not/a/name"):
            with pytest.raises(InvalidTopicError):
                client.create_topic(name)
        assert client.read(topic) == []


def test_only_those_who_contribute_may_read(cluster: Cluster) -> None:
    topic = topic_of(4, 0)
    with client_of(cluster, "taxi") as client, client_of(cluster, "tram") as other:
        client.create_topic(topic)
        client.write(topic, at(4, 0, 1, car="tram"))
        with pytest.raises(ParticipationRequiredError, match="car 'taxi'"):
            client.read(topic)
        # Others have heard that the tram has contributed.
        assert len(other.read(topic)) == 1
        client.write_raw(CONTRIBUTIONS, [("taxi", b"nonsense"), ("taxi", None), ("taxi", b'{"ts":5}')])
        with pytest.raises(DataNotAvailableError):
            client.read(topic)
        client.write(topic, at(4, 0, 2, car="taxi"))
        assert [position.ts for position in client.read(topic)] == [1, 2]
        with client_of(cluster, "taxi") as restarted:
            assert len(restarted.read(topic)) == 2


def test_the_rule_is_the_cluster_s_and_counts_for_clients_and_gateways(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, seconds = topic_of(4, 1), 2 * PATIENCE
    with pytest.raises(TypeError, match="participation_s"):
        TrafficClient(broker.bootstrap, "sly", participation_s=0)  # type: ignore[call-arg]  # it was one
    assert read_participation(broker.bootstrap) == 60
    with (
        GatewayProcess(tmp_path, broker.bootstrap) as gateway,
        TrafficClient(broker.bootstrap, "early", grid=GRID) as early,
    ):
        early.ensure_topics()
        early.write(topic, at(4, 1, 0, car="early"))
        assert gateway.get("/v1/traffic/heatmap?car=nobody").status_code == 403
        publish_participation(broker.bootstrap, seconds)
        assert penstock("traffic", "participation", broker=broker).out == f"{seconds:g} s\n"
        with TrafficClient(broker.bootstrap, "brief", grid=GRID) as client:
            client.write(topic, at(4, 1, 1, car="brief"))
            assert len(client.read(topic)) == 2

            def refused() -> bool:
                try:
                    client.read(topic)
                except ParticipationRequiredError:
                    return True
                return False

            wait_until(refused, "the contribution is old")
            wait_until(
                lambda: gateway.get("/v1/traffic/heatmap?car=early").status_code == 403,
                "the contribution is old for the gateway, too",
            )
            client.write(topic, at(4, 1, 2, car="brief"))
            assert len(client.read(topic)) == 3
            assert gateway.get("/v1/traffic/heatmap?car=brief").status_code == 200
        publish_participation(broker.bootstrap, 0)
        with TrafficClient(broker.bootstrap, "anybody", grid=GRID) as anybody:
            assert len(anybody.read(topic)) == 3
        wait_until(lambda: gateway.get("/v1/traffic/heatmap").status_code == 200, "everybody may read")


def test_records_of_others_that_are_not_positions(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    topic = topic_of(5, 0)
    broken = [("7", b""), ("7", None), (None, b"\xff"), ("7", b"{}"), ("7", b"[" * 5_000), (b"\xff", b"NaN")]
    with client_of(cluster) as client, caplog.at_level(logging.INFO, "penstock.traffic"):
        client.create_topic(topic)
        client.write(topic, at(5, 0, 2))
        client.write_raw(topic, broken)
        client.write(topic, at(5, 0, 1))
        assert [position.ts for position in client.read(topic)] == [1, 2]
    assert f"6 records of topic {topic} are not positions" in caplog.text


def test_what_retention_removed_is_not_missed(cluster: Cluster) -> None:
    topic = topic_of(5, 1)
    with client_of(cluster) as client:
        client.create_topic(topic)
        client.write(topic, [at(5, 1, ts) for ts in range(10)])
        (index,) = (index for index in range(4) if cluster.partition(topic, index)["high_watermark"])
        delete_records(cluster.bootstrap, topic, 4, index)
        assert [position.ts for position in client.read(topic)] == [4, 5, 6, 7, 8, 9]
        delete_records(cluster.bootstrap, topic, 10, index)
        assert client.read(topic) == []


# Failures


def test_nobody_answers(broker: BrokerProcess) -> None:
    topic = topic_of(0, 0)
    with (
        TrafficClient(broker.bootstrap, 7, timeout_s=PATIENT_S, grid=GRID) as patient,
        TrafficClient(broker.bootstrap, 7, timeout_s=HASTY_S, grid=GRID) as hasty,
    ):
        patient.create_topic(topic)
        patient.write(topic, at(0, 0, 1))
        assert [position.ts for position in hasty.read(topic)] == [1]
        broker.kill()
        for call in (
            lambda: hasty.create_topic(topic_of(0, 1)),
            lambda: hasty.get_cluster(topic),
            lambda: hasty.write(topic, at(0, 0, 2)),
            lambda: hasty.read(topic),
        ):
            with pytest.raises(DisconnectedServerError, match="refused"):
                call()
        broker.start()
        patient.write(topic, at(0, 0, 3))
        assert [position.ts for position in patient.read(topic)] == [1, 3]


def test_the_server_is_away_and_clusters_go_on(cluster: Cluster) -> None:
    topic = topic_of(6, 0)
    (server,) = cluster.controllers.values()
    with client_of(cluster) as client, client_of(cluster, timeout_s=HASTY_S) as hasty:
        client.create_topic(topic)
        client.write(topic, at(6, 0, 1))
        server.kill()
        try:
            with pytest.raises(DisconnectedServerError):
                hasty.create_topic(topic_of(6, 1))
            client.write(topic, at(6, 0, 2))
            assert client.read(topic) == [at(6, 0, 1), at(6, 0, 2)]
            assert client.get_cluster(topic).min_replicas == 2
        finally:
            cluster.start_again(server)
    cluster.wait_healed([topic])


def test_too_few_replicas(cluster: Cluster) -> None:
    """Two of three are gone: what was written can be read, and nothing is written until one is back."""
    topic = topic_of(7, 0)
    with client_of(cluster) as patient, client_of(cluster, timeout_s=HASTY_S) as hasty:
        patient.create_topic(topic)
        cluster.wait_healed([topic])
        patient.write(topic, at(7, 0, 1))
        leader = cluster.leader_of(topic)
        followers = [node for node in cluster.brokers.values() if node is not leader]
        for node in followers:
            node.kill()
        wait_until(lambda: patient.get_cluster(topic).followers == (), "the dead are known")
        with pytest.raises(InsufficientReplicasError, match="1 of 1 records were not acknowledged"):
            hasty.write(topic, at(7, 0, 2))
        assert [position.ts for position in patient.read(topic)] == [1]
        assert patient.get_cluster(topic).leader == leader.bootstrap
        blocked = threading.Thread(target=patient.write, args=(topic, at(7, 0, 3)))
        blocked.start()
        cluster.start_again(*followers)
        blocked.join(PATIENT_S)
        assert not blocked.is_alive()
        assert [position.ts for position in patient.read(topic)] == [1, 3]
    cluster.wait_healed([topic])


def test_a_partition_that_nobody_serves(cluster: Cluster) -> None:
    topic = "alone"
    create_on(cluster, topic, [3])
    with (
        client_of(cluster) as patient,
        client_of(cluster, timeout_s=HASTY_S) as client,
    ):
        patient.write(topic, [at(8, 0, 1), at(0, 8, 2)])

        def contributes() -> bool:
            try:
                return len(client.read(topic)) == 2
            except DataNotAvailableError:
                return False  # it does not wait for long

        wait_until(contributes, "the hasty client knows that its car has contributed")
        cluster.brokers[3].kill()
        try:
            wait_until(lambda: cluster.partition(topic).get("leader") != 3, "nobody leads it")
            with pytest.raises(DataNotAvailableError, match="not all of topic 'alone' can be read now"):
                client.read(topic)
            with pytest.raises(InsufficientReplicasError, match="no replica of topic 'alone' can lead it"):
                client.get_cluster(topic)
            with pytest.raises(InsufficientReplicasError):
                client.write(topic, at(8, 0, 3))
        finally:
            cluster.start_again(cluster.brokers[3])
        cluster.wait_healed([topic])
        assert [position.ts for position in patient.read(topic)] == [1, 2]


@contextmanager
def working(work: Callable[[], None]) -> Iterator[threading.Event]:
    """Again and again, in a thread, until the end; what it fails with is raised then."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            while not stop.is_set():
                work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def test_leaders_that_are_killed(cluster: Cluster) -> None:
    """Everything that was acknowledged is read, once for each time that it was written."""
    topics = [topic_of(9, col) for col in range(3)]
    numbers = itertools.count()
    acknowledged: list[Position] = []
    with client_of(cluster) as client:
        for topic in topics:
            client.create_topic(topic)
        cluster.wait_healed(topics)

        def write() -> None:
            some = [at(9, number % 3, number, car=number % 10) for number in itertools.islice(numbers, 60)]
            client.write_many(some)
            acknowledged.extend(some)

        def go_on() -> None:
            before = len(acknowledged)
            wait_until(lambda: len(acknowledged) > before + 600, "positions are acknowledged", timeout_s=30)

        with working(write):
            for topic in topics[:2]:
                go_on()
                leader = cluster.leader_of(topic)
                leader.kill()
                go_on()
                cluster.start_again(leader)
                cluster.wait_healed(topics)
            go_on()
        found = [position for topic in topics for position in client.read(topic)]
    assert sorted(position.ts for position in found) == list(range(len(acknowledged)))
    assert set(found) == set(acknowledged)


# The documentation

MODULES = (
    *("grid", "position", "topics", "heat", "participation"),
    *("city_map", "client", "async_client"),
)


def test_examples(broker: BrokerProcess) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for name in MODULES:
        module = importlib.import_module(f"penstock.traffic.{name}")
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            for example in test.examples:
                example.source = example.source.replace("127.0.0.1:9092", broker.bootstrap)
            runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
    assert runner.tries >= 35
