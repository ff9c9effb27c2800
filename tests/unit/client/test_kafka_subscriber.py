"""A subscriber on brokers that lose requests and answers: nothing is left out, nothing comes twice."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace

import pytest

from penstock.client.errors import (
    DisconnectedServerError,
    MessagesLostError,
    OutcomeUnknownError,
    SubscriberFencedError,
)
from penstock.client.kafka import subscriber as subscriber_module
from penstock.client.kafka import subscriptions, transactional
from penstock.client.kafka.cluster import Cluster
from penstock.client.kafka.raw.requests import GroupOffset
from penstock.client.kafka.subscriber import KafkaSubscriber
from penstock.client.kafka.transactional import TRANSACTION_S_MAX
from penstock.client.pubsub.inbox import Inbox, Lost, Skipped
from penstock.client.pubsub.messages import Message, Outgoing, Partition
from penstock.client.pubsub.positions import Position
from tests.unit.client.fake_brokers import FakeBrokers, FakeCluster
from tests.unit.client.test_kafka_publisher import Clock

END = 26
COUNT = 20
SOURCE = ("in", 0)


class FakeReader:
    """COUNT messages in one partition, at the even offsets."""

    first = 0
    poison = range(0)
    """Offsets that are passed over."""

    def __init__(self, *_: object) -> None:
        self.inbox: Inbox[Message | Lost | Skipped] = Inbox()
        self._next: dict[Partition, int] = {}

    @property
    def partitions(self) -> set[Partition]:
        return set(self._next)

    def start(self, positions: Mapping[Partition, int]) -> None:
        self._next.update(positions)

    def stop(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._next.pop(partition, None)

    def fetch(self, wait_s: float) -> None:
        if SOURCE not in self._next:
            return
        if self._next[SOURCE] < self.first:
            self.inbox.add(SOURCE, Lost(self._next[SOURCE], self.first))
            self._next[SOURCE] = self.first
        for offset in range(0, 2 * COUNT, 2):
            if offset >= self._next[SOURCE] and offset in self.poison:
                self.inbox.add(SOURCE, Skipped(self.poison.stop))
                self._next[SOURCE] = self.poison.stop
            elif offset >= self._next[SOURCE]:
                self.inbox.add(SOURCE, Message(*SOURCE, offset, str(offset // 2).encode()))
                self._next[SOURCE] = offset + 1

    def has_reached(self, _: object) -> bool:
        return True

    def close(self) -> None:
        pass


Opener = Callable[..., KafkaSubscriber]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in (transactional, subscriptions, subscriber_module):
        monkeypatch.setattr(module, "time", found)
    monkeypatch.setattr(subscriber_module, "SubscriptionReader", FakeReader)
    monkeypatch.setattr(subscriber_module, "end_offsets", lambda *_: {})
    monkeypatch.setattr(subscriber_module, "ensure_topic", lambda *_: [0])
    found.topics = {"in": SimpleNamespace(partitions=[0])}
    monkeypatch.setattr(Cluster, "metadata", lambda _: SimpleNamespace(topics=found.topics))
    monkeypatch.setattr(Cluster, "lacks_replicas", lambda _cluster, _topic: False)
    return found


@pytest.fixture
def open_subscriber(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Opener:
    def opened(
        cluster: FakeCluster,
        fate: Callable[[int], str] = lambda _: "",
        own: dict[Partition, int] | None = None,
    ) -> KafkaSubscriber:
        monkeypatch.setattr(transactional, "Brokers", lambda _: FakeBrokers(cluster, fate))
        return KafkaSubscriber(Cluster("127.0.0.1:1", 5.0), "s", own)

    return opened


def subscribed() -> FakeCluster:
    cluster = FakeCluster()
    cluster.offsets[SOURCE] = GroupOffset(0, Position(0).metadata())
    return cluster


def get_text(subscriber: KafkaSubscriber) -> str | None:
    found = subscriber.get(1, 0)
    return found[0].text if found else None


def test_lives_go_on_where_the_last_one_stopped(open_subscriber: Opener) -> None:
    cluster = subscribed()
    first = open_subscriber(cluster)
    assert [get_text(first), get_text(first)] == ["0", "1"]
    second = open_subscriber(cluster)
    assert [message.text for message in second.get(3, 0)] == ["2", "3", "4"]
    with pytest.raises(SubscriberFencedError):
        first.get(1, 0)
    assert get_text(second) == "5"


@pytest.mark.parametrize("fault", ["request lost", "answer lost"])
def test_a_get_that_fails_has_not_got_its_message(open_subscriber: Opener, fault: str) -> None:
    is_broken = True
    subscriber = open_subscriber(subscribed(), lambda asked: fault if is_broken and asked == END else "")
    for _ in range(2):
        with pytest.raises(OutcomeUnknownError):
            subscriber.get(1, 0)
    is_broken = False
    assert [get_text(subscriber), get_text(subscriber)] == ["0", "1"]


@pytest.mark.parametrize("fault", ["request lost", "answer lost"])
@pytest.mark.parametrize("is_given_up", [False, True])
def test_what_became_of_a_transaction_is_found_out(
    open_subscriber: Opener, clock: Clock, fault: str, is_given_up: bool
) -> None:
    cluster = subscribed()
    is_broken = True
    subscriber = open_subscriber(cluster, lambda asked: fault if is_broken and asked == END else "")
    with pytest.raises(OutcomeUnknownError):
        copy_one(subscriber)
    if is_given_up:
        cluster.time_out("penstock.subscriber.s")
        clock.now += TRANSACTION_S_MAX
    is_broken = False
    assert copy_one(subscriber) in ("0", "1")
    copied = [value.decode() for value in cluster.committed]
    assert copied in (["0"], ["0", "1"])
    assert get_text(subscriber) == str(len(copied))


def test_a_transaction_that_happened_is_not_made_again(open_subscriber: Opener) -> None:
    cluster = subscribed()
    fates = ["wrong answer"]
    subscriber = open_subscriber(cluster, lambda asked: fates.pop() if asked == END and fates else "")
    assert [copy_one(subscriber), copy_one(subscriber)] == ["0", "1"]
    assert cluster.committed == [b"0", b"1"]


def test_a_topic_that_was_away_goes_on_where_the_application_is(
    open_subscriber: Opener, clock: Clock
) -> None:
    subscriber = open_subscriber(subscribed(), own={})
    assert get_text(subscriber) == "0"
    (found,) = clock.topics.items()
    clock.topics.clear()
    clock.now += subscriber_module.LOOK_S
    assert get_text(subscriber) is None
    clock.topics.update([found])
    clock.now += subscriber_module.LOOK_S
    assert get_text(subscriber) == "1"


def test_what_a_transaction_has_got_does_not_come_again_in_it(open_subscriber: Opener, clock: Clock) -> None:
    subscriber = open_subscriber(subscribed())
    (found,) = clock.topics.items()
    with subscriber.transaction() as transaction:
        assert str(transaction.get(0)) == "0"
        for is_away in (True, False):
            clock.topics.clear() if is_away else clock.topics.update([found])
            clock.now += subscriber_module.LOOK_S
            assert str(transaction.get(0)) == ("1" if is_away else "2")


def copy_one(subscriber: KafkaSubscriber) -> str | None:
    with subscriber.transaction() as transaction:
        message = transaction.get(0)
        if message is not None:
            transaction.put(Outgoing("t", message.value))
    return None if message is None else message.text


def test_positions_of_the_application_are_followed_by_those_of_the_group(open_subscriber: Opener) -> None:
    cluster = subscribed()
    subscriber = open_subscriber(cluster, own={})
    assert get_text(subscriber) == "0"
    assert cluster.offsets[SOURCE].offset == 0
    assert get_text(subscriber) == "1"
    assert cluster.offsets[SOURCE].offset == 1
    subscriber.finish()
    assert cluster.offsets[SOURCE].offset == 3
    assert get_text(open_subscriber(cluster, own={SOURCE: 1})) == "1"


@pytest.mark.parametrize("own", [None, {}])
def test_lost_messages_are_told_once(
    open_subscriber: Opener, monkeypatch: pytest.MonkeyPatch, own: dict[Partition, int] | None
) -> None:
    monkeypatch.setattr(FakeReader, "first", 5)
    cluster = subscribed()
    subscriber = open_subscriber(cluster, own=own)
    with pytest.raises(MessagesLostError) as caught:
        subscriber.get(1, 0)
    assert (caught.value.first, caught.value.next) == (0, 5)
    assert get_text(subscriber) == "3"


@pytest.mark.parametrize("own", [None, {}])
def test_a_position_behind_poison_is_written_when_all_before_it_was_got(
    open_subscriber: Opener, monkeypatch: pytest.MonkeyPatch, own: dict[Partition, int] | None
) -> None:
    monkeypatch.setattr(FakeReader, "poison", range(4, 2 * COUNT))
    cluster = subscribed()
    subscriber = open_subscriber(cluster, own=own)
    assert [message.text for message in subscriber.get(9, 0)] == ["0", "1"]
    assert cluster.offsets[SOURCE].offset == (3 if own is None else 0)
    assert get_text(subscriber) is None
    subscriber.finish()
    assert cluster.offsets[SOURCE].offset == 2 * COUNT


def test_poison_in_the_middle_of_a_transaction_moves_nothing_before_its_end(
    open_subscriber: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeReader, "poison", range(4, 8))
    cluster = subscribed()
    subscriber = open_subscriber(cluster)
    with subscriber.transaction() as transaction:
        found = [transaction.get(0) for _ in range(3)]
        assert cluster.offsets[SOURCE].offset == 0
    assert [message.text for message in found if message] == ["0", "1", "4"]
    assert cluster.offsets[SOURCE].offset == 9


def lossy(chance: random.Random) -> Callable[[int], str]:
    return lambda _: "" if chance.random() < 0.7 else chance.choice(["request lost", "answer lost"])


@pytest.mark.parametrize("seed", range(25))
def test_copies_are_exact_through_lives_and_losses(
    open_subscriber: Opener, clock: Clock, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    poison = range(first := 2 * chance.randrange(COUNT), first + 2 * chance.randrange(4))
    monkeypatch.setattr(FakeReader, "poison", poison)
    cluster = subscribed()
    for _ in range(200):
        try:
            subscriber = open_subscriber(cluster, lossy(chance))
            while chance.random() < 0.8:
                copy_one(subscriber)
        except DisconnectedServerError:
            clock.now += chance.choice([0, TRANSACTION_S_MAX])
    subscriber = open_subscriber(cluster)
    while copy_one(subscriber) is not None:
        pass
    assert cluster.committed == [str(number).encode() for number in range(COUNT) if 2 * number not in poison]


@pytest.mark.parametrize("seed", range(25))
def test_an_application_is_exact_through_lives_and_losses(
    open_subscriber: Opener, clock: Clock, seed: int
) -> None:
    chance = random.Random(seed)
    cluster = subscribed()
    stored: dict[Partition, int] = {}
    kept: list[str] = []

    def live(fate: Callable[[int], str], go_on: float) -> None:
        subscriber = open_subscriber(cluster, fate, dict(stored))
        while chance.random() < go_on:
            found = subscriber.get(chance.randint(1, 2), 0)
            if not found and go_on == 1:
                return
            for message in found:
                if chance.random() > go_on:
                    return  # killed, with what it got
                kept.append(message.text)
                stored[message.topic, message.partition] = message.position

    for _ in range(60):
        try:
            live(lossy(chance), 0.9)
        except DisconnectedServerError:
            clock.now += chance.choice([0, TRANSACTION_S_MAX])
    live(lambda _: "", 1)
    assert kept == [str(number) for number in range(COUNT)]
