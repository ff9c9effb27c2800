"""A publisher on brokers that lose requests and answers: every message is stored once, in order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from penstock.client.errors import (
    DisconnectedServerError,
    OutcomeUnknownError,
    PublisherFencedError,
    SequenceGapError,
)
from penstock.client.kafka import publisher as publisher_module
from penstock.client.kafka import transactional
from penstock.client.kafka.cluster import Cluster
from penstock.client.kafka.publisher import KafkaPublisher
from penstock.client.kafka.transactional import TRANSACTION_S_MAX
from penstock.client.kafka.verdicts import Verdict, verdict
from tests.unit.client.fake_brokers import FakeBrokers, FakeCluster

INIT, PRODUCE, END = 22, 0, 26


class Clock:
    """Time passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.topics: dict[str, object] = {}
        """What the cluster has meanwhile."""

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(transactional, "time", found)
    monkeypatch.setattr(publisher_module, "ensure_topic", lambda _cluster, _topic: [0])
    monkeypatch.setattr(Cluster, "lacks_replicas", lambda _cluster, _topic: False)
    monkeypatch.setattr(publisher_module, "partitions", lambda _cluster, _topic: [0])
    return found


@pytest.fixture
def open_publisher(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> Callable[[FakeCluster, Callable[[int], str]], KafkaPublisher]:
    def opened(cluster: FakeCluster, fate: Callable[[int], str] = lambda _: "") -> KafkaPublisher:
        monkeypatch.setattr(transactional, "Brokers", lambda _: FakeBrokers(cluster, fate))
        # Nobody listens there: the plain connection that looks for a reason is refused at once.
        return KafkaPublisher(Cluster("127.0.0.1:1", 5.0), "p")

    return opened


Opener = Callable[..., KafkaPublisher]


def test_puts_have_numbers_and_offsets(open_publisher: Opener) -> None:
    cluster = FakeCluster()
    first = open_publisher(cluster)
    assert [(put.seq, put.offset) for put in first.put("t", [b"a"], None, None)] == [(1, 0)]
    assert [(put.seq, put.offset) for put in first.put("t", [b"b", b"c"], None, None)] == [(2, 2), (3, 3)]
    second = open_publisher(cluster)
    assert second.last_seq("t") == 3
    assert [put.offset for put in second.put("t", [b"b"], 2, None)] == [2]
    with pytest.raises(SequenceGapError):
        second.put("t", [b"x"], 5, None)
    assert cluster.committed == [b"a", b"b", b"c"]


@pytest.mark.parametrize("fault", ["request lost", "answer lost", "wrong answer"])
@pytest.mark.parametrize("api_key", [PRODUCE, 9, INIT, 24, 25, END, 28])
def test_one_loss_anywhere(open_publisher: Opener, fault: str, api_key: int) -> None:
    cluster = FakeCluster()
    faults = [fault, fault]
    publisher = open_publisher(cluster, lambda asked: faults.pop() if asked == api_key and faults else "")
    for number in range(1, 4):
        (put,) = publisher.put("t", [str(number).encode()], None, None)
        assert put.seq == number
    assert cluster.committed == [b"1", b"2", b"3"]


@pytest.mark.parametrize("fault", ["request lost", "answer lost"])
def test_an_unknown_outcome_is_found_out_by_the_next_put(open_publisher: Opener, fault: str) -> None:
    cluster = FakeCluster()
    is_broken = False
    publisher = open_publisher(cluster, lambda asked: fault if is_broken and asked == END else "")
    publisher.put("t", [b"1"], None, None)
    is_broken = True
    with pytest.raises(OutcomeUnknownError, match="put it again with number 2") as caught:
        publisher.put("t", [b"2"], None, None)
    assert caught.value.seq == 2
    with pytest.raises(OutcomeUnknownError, match="number 2"):
        publisher.put("t", [b"2"], 2, None)
    with pytest.raises(DisconnectedServerError, match="was not stored"):
        publisher.put("t", [b"3"], None, None)
    is_broken = False
    assert [put.seq for put in publisher.put("t", [b"2"], caught.value.seq, None)] == [2]
    assert [put.seq for put in publisher.put("t", [b"3"], None, None)] == [3]
    assert cluster.committed == [b"1", b"2", b"3"]


def test_a_life_that_asks_a_coordinator_that_was_replaced_does_not_put_twice(open_publisher: Opener) -> None:
    cluster = FakeCluster()
    first = open_publisher(cluster)
    first.put("t", [b"1"], None, None)
    at_that_time = dict(cluster.offsets)
    first.put("t", [b"2"], None, None)
    cluster.offsets_of_replaced = at_that_time
    second = open_publisher(cluster)
    assert [put.seq for put in second.put("t", [b"2"], 2, None)] == [2]
    assert cluster.committed == [b"1", b"2"]


def test_without_a_commit_it_is_known_that_nothing_is_stored(open_publisher: Opener) -> None:
    cluster = FakeCluster()
    is_broken = True
    publisher = open_publisher(cluster, lambda asked: "answer lost" if is_broken and asked == PRODUCE else "")
    with pytest.raises(DisconnectedServerError, match="was not stored") as caught:
        publisher.put("t", [b"1"], None, None)
    assert not isinstance(caught.value, OutcomeUnknownError)
    is_broken = False
    assert [put.seq for put in publisher.put("t", [b"1"], None, None)] == [1]
    assert cluster.committed == [b"1"]


def test_of_two_the_older_is_fenced_for_good(open_publisher: Opener) -> None:
    cluster = FakeCluster()
    older = open_publisher(cluster)
    older.put("t", [b"1"], None, None)
    newer = open_publisher(cluster)
    for _ in range(2):
        with pytest.raises(PublisherFencedError, match="'p'"):
            older.put("t", [b"2"], None, None)
    newer.put("t", [b"2"], None, None)
    assert cluster.committed == [b"1", b"2"]


def test_one_that_the_coordinator_gave_up_goes_on(open_publisher: Opener, clock: Clock) -> None:
    """Its transaction was aborted for its age, under a new epoch: nobody else is there."""
    cluster = FakeCluster()
    is_broken = False
    publisher = open_publisher(cluster, lambda asked: "request lost" if is_broken else "")
    publisher.put("t", [b"1"], None, None)
    is_broken = True
    with pytest.raises(DisconnectedServerError):
        publisher.put("t", [b"2"], None, None)
    cluster.time_out("penstock.publisher.p")
    clock.now += TRANSACTION_S_MAX
    is_broken = False
    assert [put.seq for put in publisher.put("t", [b"2"], 2, None)] == [2]
    assert cluster.committed == [b"1", b"2"]


def test_one_that_was_replaced_meanwhile_does_not(open_publisher: Opener, clock: Clock) -> None:
    """Also after the time in which a fence is believed: the other's number is not taken for its own."""
    cluster = FakeCluster()
    is_broken = False
    older = open_publisher(cluster, lambda asked: "request lost" if is_broken and asked == END else "")
    older.put("t", [b"1"], None, None)
    is_broken = True
    with pytest.raises(OutcomeUnknownError):
        older.put("t", [b"mine"], None, None)
    newer = open_publisher(cluster)
    newer.put("t", [b"2"], None, None)
    clock.now += TRANSACTION_S_MAX
    is_broken = False
    with pytest.raises(PublisherFencedError):
        older.put("t", [b"mine"], 2, None)
    assert cluster.committed == [b"1", b"2"]


@pytest.mark.parametrize("seed", range(40))
def test_lives_with_losses_anywhere(open_publisher: Opener, clock: Clock, seed: int) -> None:
    """A program works through its list, in several lives, on a network that loses a third of everything."""
    chance = random.Random(seed)
    cluster = FakeCluster()
    is_broken = True

    def fate(_: int) -> str:
        if not is_broken or chance.random() < 0.6:
            return ""
        return chance.choice(["request lost", "answer lost"])

    def one_life(first: int) -> int:
        publisher = open_publisher(cluster, fate)
        number = first
        while number <= 30 and chance.random() < 0.9:
            try:
                (put,) = publisher.put("t", [str(number).encode()], number, None)
                assert put.seq == number
                number += 1
            except PublisherFencedError:
                raise
            except DisconnectedServerError:
                clock.now += chance.choice([0, 0, TRANSACTION_S_MAX])
        return number

    done = 1
    for _ in range(50):
        try:
            done = one_life(max(1, done - chance.randint(0, 2)))  # it may have forgotten its last ones
        except DisconnectedServerError:
            continue
        if done > 30:
            break
    is_broken = False
    assert one_life_to_the_end(open_publisher, cluster) == [str(number).encode() for number in range(1, 31)]


def one_life_to_the_end(open_publisher: Opener, cluster: FakeCluster) -> list[bytes]:
    publisher = open_publisher(cluster)
    for number in range(1, 31):
        publisher.put("t", [str(number).encode()], number, None)
    return cluster.committed


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError._TRANSPORT, Verdict.AGAIN),
        (KafkaError.CONCURRENT_TRANSACTIONS, Verdict.AGAIN),
        (KafkaError.NOT_COORDINATOR, Verdict.AGAIN),
        (KafkaError.NOT_ENOUGH_REPLICAS, Verdict.AGAIN),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Verdict.AGAIN),
        (KafkaError.MSG_SIZE_TOO_LARGE, Verdict.HOPELESS),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, Verdict.HOPELESS),
        (KafkaError.INVALID_PRODUCER_ID_MAPPING, Verdict.FORGOTTEN),
        (KafkaError.PRODUCER_FENCED, Verdict.RENEW),
        (KafkaError.INVALID_PRODUCER_EPOCH, Verdict.RENEW),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.RENEW),
        (KafkaError.INVALID_TXN_STATE, Verdict.RENEW),
    ],
)
def test_what_to_do_after_which_error(code: int, expected: Verdict) -> None:
    assert verdict(code) is expected
