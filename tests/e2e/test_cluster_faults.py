"""Writers, readers and a group on a cluster whose nodes fail in random combination; then the checker's word.

Writers are idempotent and want acks=all. Whatever happens, what they were promised is in the log in the end,
once, in order, at the offset they were told, for every reader; no reader ever saw anything else; what the
group has committed never went back; and all replicas hold the same bytes.

PENSTOCK_FAULT_SECONDS is the time of each run in which faults happen, PENSTOCK_FAULT_SEED chooses them.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from confluent_kafka.admin import NewTopic

from penstock.storage import FileStorage, LogConfig
from penstock.wire.records import decode_records
from tests.support.cluster import Cluster, NodeProcess
from tests.support.fault_clients import (
    Member,
    Observer,
    RawWriter,
    Reader,
    Recorder,
    Writer,
    commit_starts,
    read_to_the_end,
)
from tests.support.history import History, Outcome, check, summary
from tests.support.nemesis import Nemesis
from tests.support.raw import RawClient
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("PENSTOCK_FAULT_SECONDS", "8"))
SEED = int(os.environ.get("PENSTOCK_FAULT_SEED", "1"))
TOPIC, GROUP = "history", "members"
PARTITIONS, REPLICAS = 4, 3
HEAL_S_MAX = 60.0


@pytest.mark.timeout(SECONDS + 240)
@pytest.mark.parametrize(
    ("brokers", "controllers", "flush"),
    [(3, 0, "commit"), (4, 3, "os")],
    ids=["combined controllers", "dedicated controllers"],
)
def test_faults_in_random_combination(tmp_path: Path, brokers: int, controllers: int, flush: str) -> None:
    recorder = Recorder()
    with Cluster(
        tmp_path, brokers=brokers, controllers=controllers, settings=[f'flush = "{flush}"']
    ) as cluster:
        create_topic(cluster)
        nemesis = Nemesis(cluster, TOPIC, SEED)
        try:
            run(cluster, nemesis, recorder)
            history = recorder.finish()
            assert recorder.complaints == []
            check_history(history)
            cluster.stop()
            check_replicas(cluster, history)
        except BaseException as error:
            error.add_note(f"PENSTOCK_FAULT_SEED={SEED} PENSTOCK_FAULT_SECONDS={SECONDS:g}; the faults:")
            error.add_note("\n".join(nemesis.story))
            raise


def create_topic(cluster: Cluster) -> None:
    topic = NewTopic(TOPIC, PARTITIONS, REPLICAS, config={"segment.bytes": str(1 << 16)})
    client = admin(cluster.bootstrap)
    for future in client.create_topics([topic]).values():
        future.result(HEAL_S_MAX)


def run(cluster: Cluster, nemesis: Nemesis, recorder: Recorder) -> None:
    place = (cluster.bootstrap, TOPIC, PARTITIONS, recorder)
    patient = [Writer(f"patient-{each}", *place, chance=random.Random(f"{SEED}{each}")) for each in range(2)]
    restless = Writer("restless", *place, chance=random.Random(SEED), life_s=4.0)
    raw = RawWriter("raw", *place, cluster=cluster, chance=random.Random(SEED))
    readers = [Reader(f"reader-{each}", *place) for each in range(2)]
    members = [Member(f"member-{each}", *place, group=GROUP) for each in range(2)]
    observer = Observer("observer", *place, group=GROUP)
    writers = [*patient, restless, raw]
    others = [*readers, *members, observer]
    commit_starts(cluster.bootstrap, TOPIC, PARTITIONS, GROUP)
    for client in (*writers, *others):
        client.start()
    try:
        wait_until(lambda: all(each.acknowledged for each in patient), "writes begin", timeout_s=HEAL_S_MAX)
        nemesis.rage(SECONDS)
        nemesis.heal()
        cluster.wait_healed([TOPIC], timeout_s=HEAL_S_MAX)
        acknowledged = [each.acknowledged for each in patient]
        wait_until(
            lambda: all(
                each.acknowledged > before for each, before in zip(patient, acknowledged, strict=True)
            ),
            "writes go on",
            timeout_s=HEAL_S_MAX,
        )
    finally:
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.join()
    ends = end_offsets(cluster)
    for reader in readers:
        reader.ends = ends
        reader.stop()
    join_last = read_to_the_end("last", *place[:2], ends, recorder)
    try:
        wait_until(lambda: observer.newest == ends, f"the group commits {ends}", timeout_s=HEAL_S_MAX)
    finally:
        for client in others:
            client.stop()
        for client in others:
            client.join()
        join_last()


def end_offsets(cluster: Cluster) -> dict[int, int]:
    """Once all replicas have all: nothing is on its way any more."""
    cluster.wait_healed([TOPIC], timeout_s=HEAL_S_MAX)
    wait_until(lambda: not differing(cluster), "replicas with the same bytes", timeout_s=HEAL_S_MAX)
    ends = {}
    for index in range(PARTITIONS):
        with RawClient(cluster.leader_of(TOPIC, index).bootstrap) as client:
            ends[index] = client.end_offset(TOPIC, partition=index)
    return ends


def differing(cluster: Cluster) -> list[str]:
    """The partitions whose replicas are not the same files, end to end."""
    found = []
    for index in range(PARTITIONS):
        copies = {each.id: each.log_bytes(TOPIC, index) for each in replicas(cluster, index)}
        if len(set(copies.values())) != 1:
            sizes = {node_id: len(copy) for node_id, copy in copies.items()}
            found.append(f"{TOPIC}-{index}: bytes by node {sizes}")
    return found


def replicas(cluster: Cluster, index: int) -> list[NodeProcess]:
    return [node for node in cluster.brokers.values() if (node.data / f"{TOPIC}-{index}").is_dir()]


def check_history(history: History) -> None:
    outcomes = [send.outcome for send in history.sends]
    counts = ", ".join(f"{outcomes.count(each)} {each.value}" for each in Outcome)
    print(
        f"sends: {counts}; {sum(len(each.records) for each in history.polls)} records polled;"
        f" {len(history.commits)} commits, {len(history.committed)} times read"
    )
    anomalies = check(history)
    assert not anomalies, summary(anomalies)
    assert all(send.outcome is Outcome.OK for send in history.sends if send.writer.startswith("patient")), (
        "a patient writer was left without an answer"
    )


def check_replicas(cluster: Cluster, history: History) -> None:
    """After a clean stop: the same bytes everywhere, and in them what the last reader was given."""
    assert differing(cluster) == []
    for index in range(PARTITIONS):
        nodes = replicas(cluster, index)
        assert len(nodes) == REPLICAS
        given = [
            record
            for poll in history.polls
            if (poll.reader, poll.partition) == ("last", index)
            for record in poll.records
        ]
        for node in nodes:
            assert stored(node, f"{TOPIC}-{index}") == given, f"{TOPIC}-{index} on node {node.id}"


def stored(node: NodeProcess, name: str) -> list[tuple[int, str]]:
    """(offset, value) of all that a node that does not run has on its disk; every batch is checked."""
    storage = FileStorage.open(node.data, node.id)
    try:
        topic_id: UUID = dict(storage.logs())[name]
        log = storage.open_log(name, topic_id, LogConfig(), now_ms=0)
        assert log.recovery == [], "a clean stop left something to repair"
        return [
            (record.offset, (record.value or b"").decode())
            for header, batch in log.batches(0, log.log_end_offset)
            for record in decode_records(batch, header)
        ]
    finally:
        storage.close()
