"""kcat as people use it at a prompt."""

from __future__ import annotations

import json

import pytest

from tests.compat.clients import run_kcat
from tests.support.raw import RECENT_MS, RawClient, make_batch
from tests.support.wait import wait_until

pytestmark = pytest.mark.needs("kcat")

START = RECENT_MS


@pytest.fixture
def topic(raw: RawClient, topic: str) -> str:
    raw.create_topic(topic, partitions=2)
    raw.produce(topic, make_batch([b"a", b"b", b"c"], timestamp=START, step_ms=1_000))
    return topic


def test_metadata_listing(bootstrap: str, topic: str) -> None:
    listing = json.loads(run_kcat("-b", bootstrap, "-L", "-J", "-t", topic))
    [found] = listing["topics"]
    assert found["topic"] == topic
    assert [partition["partition"] for partition in found["partitions"]] == [0, 1]
    broker = listing["brokers"][0]
    assert broker["name"] == bootstrap
    assert listing["controllerid"] == broker["id"]
    for partition in found["partitions"]:
        assert partition["leader"] == broker["id"]
        assert partition["replicas"] == partition["isrs"] == [{"id": broker["id"]}]


def test_offsets_by_time(bootstrap: str, topic: str) -> None:
    for timestamp, offset in ((START, 0), (START + 1, 1), (START + 2_000, 2), (-1, 3), (-2, 0)):
        output = run_kcat("-b", bootstrap, "-Q", "-t", f"{topic}:0:{timestamp}")
        assert output.split() == [topic, "[0]", "offset", str(offset)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("beginning", ["a", "b", "c"]),
        ("1", ["b", "c"]),
        ("-1", ["c"]),
        (f"s@{START + 1_000}", ["b", "c"]),
        ("end", []),
    ],
    ids=["beginning", "offset", "from the end", "time", "end"],  # the same in every process
)
def test_consume_from(bootstrap: str, topic: str, start: str, expected: list[str]) -> None:
    output = run_kcat("-b", bootstrap, "-C", "-t", topic, "-p", "0", "-o", start, "-e", "-q")
    assert output.splitlines() == expected


def test_produce_and_consume_lines(raw: RawClient, bootstrap: str, topic: str) -> None:
    lines = b"".join(b"line %d\n" % index for index in range(500))
    run_kcat("-b", bootstrap, "-P", "-t", topic, "-p", "1", stdin=lines)
    assert raw.end_offset(topic, partition=1) == 500
    output = run_kcat("-b", bootstrap, "-C", "-t", topic, "-p", "1", "-o", "beginning", "-e", "-q")
    assert output.encode() == lines


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(raw: RawClient, bootstrap: str, topic: str, acks: str) -> None:
    run_kcat("-b", bootstrap, "-P", "-t", topic, "-p", "1", "-X", f"acks={acks}", stdin=b"x\n" * 100)
    # Without acknowledgements kcat is gone before the broker has read what it sent.
    wait_until(lambda: raw.end_offset(topic, partition=1) == 100, "all messages")
