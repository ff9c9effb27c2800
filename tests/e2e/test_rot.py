"""Bits that flip on a disk: never served, nothing else is disturbed, and other replicas mend them.

So they do with a replica that has other batches than its leader.
"""

from __future__ import annotations

import json
import urllib.request
from typing import TYPE_CHECKING

from confluent_kafka.admin import NewTopic

from penstock.storage.blobs import seal, unseal
from penstock.wire.batch import patched_prefix, read_header
from tests.support.cluster import Cluster
from tests.support.commands import penstock
from tests.support.raw import RawClient, all_records, make_batch, read_all, split_batches
from tests.support.topics import admin
from tests.support.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.broker import BrokerProcess
    from tests.support.cluster import NodeProcess

VALUES = [b"%04d" % number * 25 for number in range(30)]
SIZE = len(make_batch([VALUES[0]]))
SEGMENTS = {"segment.bytes": str(10 * SIZE)}


def fill(broker: BrokerProcess) -> None:
    with RawClient(broker.bootstrap) as client:
        for topic in ("rotten", "healthy"):
            client.create_topic(topic, configs=SEGMENTS)
            for value in VALUES:
                assert client.produce(topic, make_batch([value])).error_code.name == "none"


def fill_replicas(cluster: Cluster) -> tuple[NodeProcess, NodeProcess]:
    """The leader of `rotten` and a follower, which have the same."""
    client = admin(cluster.bootstrap)
    client.create_topics([NewTopic("rotten", 1, 3, config=SEGMENTS)])["rotten"].result(30)
    cluster.wait_healed(["rotten"])
    leader = cluster.leader_of("rotten")
    follower = next(node for node in cluster.brokers.values() if node is not leader)
    with RawClient(leader.bootstrap) as raw:
        for value in VALUES:
            assert raw.produce("rotten", make_batch([value])).error_code.name == "none"
    wait_until(lambda: leader.log_bytes("rotten") == follower.log_bytes("rotten"), "equal replicas")
    return leader, follower


def segments(broker: BrokerProcess, topic: str) -> list[Path]:
    return sorted((broker.data / f"{topic}-0").glob("*.log"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x04
    path.write_bytes(data)


def read_around(client: RawClient, topic: str) -> tuple[list[bytes | None], list[int]]:
    """What can be read, and the offsets at which the answer is KAFKA_STORAGE_ERROR."""
    values: list[bytes | None] = []
    failed = []
    offset = 0
    while offset < len(VALUES):
        answer = client.fetch(topic, offset)
        if answer.error_code.name == "kafka_storage_error":
            failed.append(offset)
            offset += 1
            continue
        assert answer.error_code.name == "none", answer.error_code
        values += [record.value for record in all_records(answer.records)]
        offset = split_batches(answer.records)[-1][0].next_offset
    return values, failed


def check_healthy(client: RawClient) -> None:
    records = [record for _, batch in read_all(client, "healthy") for record in all_records(batch)]
    assert [record.value for record in records][: len(VALUES)] == VALUES
    assert client.produce("healthy", make_batch([b"more"])).error_code.name == "none"


def test_a_flipped_bit_is_never_served_and_disturbs_no_other_topic(broker: BrokerProcess) -> None:
    """In an old segment and in the newest one; the node was stopped cleanly."""
    fill(broker)
    assert broker.terminate() == 0
    old, *_, newest = segments(broker, "rotten")
    flip(old, 3 * SIZE + 100)
    flip(newest, SIZE + 100)
    rotten = [3, int(newest.stem) + 1]
    broker.start()
    with RawClient(broker.bootstrap) as client:
        values, failed = read_around(client, "rotten")
        assert failed == rotten
        assert values == [value for at, value in enumerate(VALUES) if at not in rotten]
        assert client.produce("rotten", make_batch([b"more"])).error_code.name == "none"
        check_healthy(client)
    assert f"offset 3 of rotten-0: {old} is damaged at byte {3 * SIZE} (CRC mismatch)" in broker.log
    with urllib.request.urlopen(f"{broker.http}/metrics", timeout=10) as response:
        metrics = response.read().decode()
    labels = f'topic="rotten",partition="0",offset="3",file="{old}"'
    assert f"penstock_log_damaged_bytes{{{labels}}} {SIZE}" in metrics
    assert "penstock_log_damaged_ranges 2" in metrics


def test_a_damaged_end_takes_its_partition_out_of_service_and_no_other(broker: BrokerProcess) -> None:
    """After a kill -9 nobody can tell whether acknowledged batches follow: nothing is cut."""
    fill(broker)
    broker.kill()
    newest = segments(broker, "rotten")[-1]
    flip(newest, SIZE + 100)
    before = newest.read_bytes()
    broker.start()
    with RawClient(broker.bootstrap) as client:
        assert client.fetch("rotten", 0).error_code.name == "kafka_storage_error"
        refused = client.produce("rotten", make_batch([b"more"]))
        assert refused.error_code.name == "kafka_storage_error"
        check_healthy(client)
    assert f"rotten-0 is out of service here: {newest} is damaged at byte {SIZE}" in broker.log
    assert newest.read_bytes() == before


def test_scrubbing_finds_what_nobody_reads(broker: BrokerProcess) -> None:
    fill(broker)
    assert "nothing is damaged" in penstock("cluster", "scrub", broker=broker).lines[-1]
    old, *_ = segments(broker, "rotten")
    flip(old, 3 * SIZE + 100)
    for topic, is_damaged in (("healthy", False), ("rotten", True)):
        said = penstock("cluster", "scrub", topic, "--json", broker=broker)
        assert said.code == is_damaged
        damage = {"broker": 1, "topic": topic, "partition": 0, "offset": 3, "bytes": SIZE, "file": str(old)}
        damage["problem"] = "damaged"
        assert json.loads(said.out)["damage"] == ([damage] if is_damaged else [])
    said = penstock("cluster", "scrub", broker=broker)
    assert (said.code, str(old) in said.out) == (1, True), said
    assert f"rotten-0 has rotted: {old} is damaged at byte {3 * SIZE} (CRC mismatch)" in broker.log
    with RawClient(broker.bootstrap) as client:
        assert read_around(client, "rotten")[1] == [3]
        check_healthy(client)
    assert penstock("cluster", "scrub", "no", broker=broker).complaint == "topic 'no' does not exist"


def test_what_rotted_in_a_leader_and_in_a_follower_is_mended(tmp_path: Path) -> None:
    """At different offsets; nobody leaves the in-sync set, and no leader changes."""
    settings = ["repair_check_ms = 100"]
    with Cluster(tmp_path, brokers=3, settings=settings) as cluster:
        leader, follower = fill_replicas(cluster)
        nodes = (leader, follower)
        whole, last_event = leader.log_bytes("rotten"), cluster.last_event()
        for node, offset in ((leader, 3), (follower, 5)):
            flip(min((node.data / "rotten-0").glob("*.log")), offset * SIZE + 100)
        penstock("cluster", "scrub", "--bootstrap", cluster.bootstrap)
        for node in nodes:
            wait_until(
                lambda node=node: node.metric("penstock_scrub_repaired_total") == 1,
                f"node {node.id} has mended its log",
            )
            assert node.metric("penstock_log_damaged_ranges") == 0
            assert node.log_bytes("rotten") == whole
        with RawClient(leader.bootstrap) as raw:
            assert read_around(raw, "rotten") == (VALUES, [])
        assert not [event for event in cluster.events(last_event) if event.get("topic") == "rotten"]


def test_a_follower_that_cannot_be_mended_is_filled_anew_at_its_next_start(tmp_path: Path) -> None:
    """What it had is kept aside. That it differs from the others was noted before, as after a compaction."""
    with Cluster(tmp_path, brokers=3) as cluster:
        leader, follower = fill_replicas(cluster)
        whole = leader.log_bytes("rotten")
        follower.kill()
        flip(min((follower.data / "rotten-0").glob("*.log")), 3 * SIZE + 100)
        topic_id = unseal((follower.data / "rotten-0" / "partition").read_bytes())["topic_id"]
        note = seal({"rotten-0": [topic_id, "offset 3 is damaged"]})
        (follower.data / "damaged-logs").write_bytes(note)
        rotten = follower.log_bytes("rotten")
        follower.start()
        cluster.wait_healed(["rotten"])
        wait_until(lambda: follower.log_bytes("rotten") == whole, "the replica is filled up")
        (aside,) = follower.data.glob(".aside-rotten-0-*")
        assert b"".join(path.read_bytes() for path in sorted(aside.glob("*.log"))) == rotten
        assert f"rotten-0 is filled anew by its leader, and was moved to {aside}" in follower.log
        assert unseal((follower.data / "damaged-logs").read_bytes()) == {}


def test_a_follower_that_diverged_is_found_and_filled_anew(tmp_path: Path) -> None:
    """Another batch lies in its place, with a good CRC: only the leader can tell."""
    with Cluster(tmp_path, brokers=3) as cluster:
        leader, follower = fill_replicas(cluster)
        whole = leader.log_bytes("rotten")
        said = penstock("cluster", "scrub", "--bootstrap", cluster.bootstrap)
        assert "nothing is damaged" in said.lines[-1], said

        path = min((follower.data / "rotten-0").glob("*.log"))
        data = bytearray(path.read_bytes())
        epoch = read_header(data[3 * SIZE :]).partition_leader_epoch
        other = make_batch([VALUES[4]])
        data[3 * SIZE : 4 * SIZE] = patched_prefix(read_header(other), 3, epoch) + other[16:]
        path.write_bytes(data)
        diverged = follower.log_bytes("rotten")
        said = penstock("cluster", "scrub", "rotten", "--json", "--bootstrap", cluster.bootstrap)
        (found,) = json.loads(said.out)["damage"]
        assert (said.code, found["broker"], found["file"]) == (1, follower.id, str(path))
        assert found["problem"] == f"differs from broker {leader.id}"
        assert follower.metric("penstock_scrub_disagreements_total") == 1

        wait_until(lambda: follower.log_bytes("rotten") == whole, "the replica is filled up")
        cluster.wait_healed(["rotten"])
        (aside,) = follower.data.glob(".aside-rotten-0-*")
        assert b"".join(each.read_bytes() for each in sorted(aside.glob("*.log"))) == diverged
        assert cluster.leader_of("rotten") is leader
