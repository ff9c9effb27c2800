"""Publishers, subscribers and brokers are killed with -9 at random: every message comes once and in order.

What subscriber processes got is compared with what publisher processes put, by the checker in
tests/support/publish_subscribe: exactly once for whoever stores messages and positions together, and what the
docs promise for the others.

PENSTOCK_PUBSUB_KILLS is how many processes are killed, PENSTOCK_PUBSUB_SEED chooses when.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.publish_subscribe.checker import Reader, check, summary
from tests.support.publish_subscribe.commands import Commands, GetCommands, PutCommands
from tests.support.publish_subscribe.pack import BrokerKiller, Pack
from tests.support.publish_subscribe.results import copies_of, finals_of, reader_of, sent_of
from tests.support.publish_subscribe.subscriber import COPIES
from tests.support.supervised import SupervisedCluster
from tests.support.topics import create_topic
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

KILLS = int(os.environ.get("PENSTOCK_PUBSUB_KILLS", "6"))
SEED = os.environ.get("PENSTOCK_PUBSUB_SEED", "1")
TOPICS = ("news", "weather", "sports")
WIDE = "sports"
"""The topic with several partitions."""
WIDTH = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedCluster]:
    running = SupervisedCluster(tmp_path_factory.mktemp("publish-subscribe"), brokers=3)
    with running:
        yield running


@pytest.mark.timeout(KILLS * 10 + 400)
def test_everybody_is_killed_and_every_message_comes_once_and_in_order(
    tmp_path: Path, cluster: SupervisedCluster
) -> None:
    create_topic(cluster.bootstrap, WIDE, WIDTH)
    pack = Pack(tmp_path, cluster, SEED)
    try:
        for name, style in (("s1", "positions"), ("s2", "receive"), ("s3", "get"), ("copier", "copy")):
            pack.add_subscriber(name, style, TOPICS)
        pack.add_subscriber("reader", "positions", (COPIES,))
        pack.wait_subscribed()
        for name, style in (("p1", "again"), ("p2", "known"), ("p3", "ask")):
            pack.add_publisher(name, style, TOPICS)
        pack.rage(KILLS // 2)
        pack.add_subscriber("late", "positions", TOPICS)
        pack.rage(KILLS - KILLS // 2)
        pack.finish()
        judge(pack)
    except BaseException as error:
        error.add_note(f"PENSTOCK_PUBSUB_SEED={SEED} PENSTOCK_PUBSUB_KILLS={KILLS}; what happened:")
        error.add_note("\n".join(pack.story[-60:]))
        raise
    finally:
        pack.end()


def judge(pack: Pack) -> None:
    publishers = {name: client.journals for name, client in pack.publishers.items()}
    finals = finals_of(publishers)
    sent = [each for journals in publishers.values() for each in sent_of(journals)]
    readers = [
        reader_of(name, client.task.style, client.journals)
        for name, client in pack.subscribers.items()
        if name not in ("copier", "reader")
    ]
    journals = pack.subscribers["reader"].journals
    readers.append(copies_of("reader", journals, pack.subscribers["copier"].journals))
    tell(pack, finals, readers)
    anomalies = check(sent, finals, readers)
    assert not anomalies, summary(anomalies)


def tell(pack: Pack, finals: dict[tuple[str, str], int], readers: list[Reader]) -> None:
    kills = {client.name: client.kills for client in pack.clients}
    print(f"killed: {pack.brokers.kills} brokers, clients {kills}, of which {pack.fenced} were fenced")
    print(f"{sum(finals.values())} messages put: {finals}")
    for reader in readers:
        got = Counter(got.message for life in reader.lives for got in life)
        print(f"{reader.name} ({reader.promise.value}): {got.total()} got, {len(got)} different")
    away = Counter(
        client.name for client in pack.clients for each in client.journals.records if each["kind"] == "away"
    )
    print(f"given up and tried again: {dict(away)}")


@pytest.mark.timeout(KILLS * 10 + 400)
def test_commands_are_killed_and_every_message_comes_once_and_in_order(
    tmp_path: Path, cluster: SupervisedCluster
) -> None:
    putting = PutCommands("shell-p", "commands", tmp_path, cluster, SEED)
    getting = GetCommands("shell-s", "commands", tmp_path, cluster, SEED)
    kills = max(KILLS // 3, 2)
    brokers = BrokerKiller(cluster, random.Random(SEED), kills_max=kills // 2)
    getting.subscribe()
    try:
        putting.start()
        getting.start()
        for commands in (putting, getting):
            wait_killed(commands, kills, brokers)
            commands.is_sparing.set()
        last = putting.last
        wait_until(lambda: failed(putting) or putting.last > last, "one more is put", timeout_s=60)
        stop(putting)
        wait_until(lambda: failed(getting) or has_got(getting, putting.last), "all are got", timeout_s=60)
        stop(getting)
    finally:
        for commands in (putting, getting):
            commands.stopping.set()
            if commands.is_alive():
                commands.join()
    print(
        f"killed: {putting.kills} puts, {getting.kills} gets and {brokers.kills} brokers;"
        f" {putting.last} messages put,"
        f" {len(getting.got)} got, {getting.repeated} printed again,"
        f" {len(putting.failures)} puts and {len(getting.failures)} gets gave up"
    )
    finals = {(putting.name, "commands"): putting.last}
    anomalies = check(putting.sent, finals, [getting.reader])
    assert not anomalies, summary(anomalies)


def wait_killed(commands: Commands, kills: int, brokers: BrokerKiller) -> None:
    def is_done() -> bool:
        brokers.step()
        return failed(commands) or commands.kills >= kills

    wait_until(is_done, f"{kills} killed commands of {commands.name}", timeout_s=20.0 * kills + 60)


def failed(commands: Commands) -> bool:
    if commands.error is not None:
        raise commands.error
    return False


def has_got(getting: GetCommands, last: int) -> bool:
    return bool(getting.got) and getting.got[-1].message.seq == last


def stop(commands: Commands) -> None:
    commands.stopping.set()
    commands.join()
    failed(commands)
