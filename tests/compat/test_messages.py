"""What one client writes, every client reads: all codecs, keys, headers, timestamps, null values."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from penstock.wire import compression
from tests.compat.clients import CLIENTS, Message
from tests.support.raw import RECENT_MS, read_all

pytestmark = pytest.mark.needs("kcat")  # one of the clients that read and write

if TYPE_CHECKING:
    from tests.support.raw import RawClient

START = RECENT_MS
TEXT = b"the quick brown fox jumps over the lazy dog " * 10

RICH = [
    Message(TEXT + b"%d" % index, b"key-%d" % index, (("trace", b"abc"), ("again", b"x")), START + index)
    for index in range(50)
]
ODD = [
    Message(None, b"tombstone", (), START),
    Message(b"no key", None, (), START + 1),
    Message(b"", b"empty value", (), START + 2),
    Message(b"same header twice", b"k", (("h", b"1"), ("h", b"2"), ("empty", b"")), START + 3),
    Message("grüße ☃".encode(), "schlüssel".encode(), (("naïve", b"x"),), START - 100_000),
]


@pytest.mark.parametrize("codec", compression.NAMES)
@pytest.mark.parametrize("writer", CLIENTS)
def test_every_codec_of_every_client_for_every_client(
    raw: RawClient, bootstrap: str, topic: str, writer: str, codec: str
) -> None:
    raw.create_topic(topic)
    before = int(time.time() * 1_000)
    CLIENTS[writer].produce(bootstrap, topic, RICH, codec=codec)

    # On the wire: the client did compress, and the broker left it so.
    stored = read_all(raw, topic)
    assert {header.codec for header, _ in stored} == {compression.NAMES[codec]}
    stored_bytes = sum(len(batch) for _, batch in stored)
    plain_bytes = sum(len(message.value or b"") for message in RICH)
    assert (stored_bytes < plain_bytes / 2) == (codec != "none")

    for reader, client in CLIENTS.items():
        received = client.consume(bootstrap, topic, len(RICH))
        assert [message.offset for message in received] == list(range(len(RICH))), reader
        if writer == "kcat":  # sets no timestamps
            assert all(before <= (message.timestamp or 0) for message in received), reader
            expected = [Message(message.value, message.key, message.headers) for message in RICH]
            assert [Message(m.value, m.key, m.headers) for m in received] == expected, reader
        else:
            assert [message.sent for message in received] == RICH, reader
        assert not any(message.is_log_append_time for message in received), reader


@pytest.mark.parametrize("writer", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_null_and_empty_and_odd_content(raw: RawClient, bootstrap: str, topic: str, writer: str) -> None:
    raw.create_topic(topic)
    CLIENTS[writer].produce(bootstrap, topic, ODD)
    for reader, client in CLIENTS.items():
        assert [message.sent for message in client.consume(bootstrap, topic, len(ODD))] == ODD, reader


def test_null_values_of_kcat(raw: RawClient, bootstrap: str, topic: str) -> None:
    raw.create_topic(topic)
    CLIENTS["kcat"].produce(bootstrap, topic, [Message(None, b"gone"), Message(b"here", b"kept")])
    for reader, client in CLIENTS.items():
        received = client.consume(bootstrap, topic, 2)
        assert [(m.key, m.value) for m in received] == [(b"gone", None), (b"kept", b"here")], reader


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("writer", CLIENTS)
def test_log_append_time(raw: RawClient, bootstrap: str, topic: str, writer: str, codec: str) -> None:
    raw.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1_000)
    CLIENTS[writer].produce(bootstrap, topic, RICH, codec=codec)
    after = int(time.time() * 1_000)
    for reader, client in CLIENTS.items():
        received = client.consume(bootstrap, topic, len(RICH))
        assert all(message.is_log_append_time for message in received), reader
        assert all(before <= (message.timestamp or 0) <= after for message in received), reader
        assert [message.value for message in received] == [message.value for message in RICH], reader


@pytest.mark.parametrize("writer", CLIENTS)
def test_topics_are_created_on_first_use(bootstrap: str, topic: str, writer: str) -> None:
    CLIENTS[writer].produce(bootstrap, topic, [Message(b"first", b"k")])
    [message] = CLIENTS[writer].consume(bootstrap, topic, 1)
    assert (message.key, message.value, message.offset) == (b"k", b"first", 0)


@pytest.mark.parametrize("writer", CLIENTS)
def test_many_batches(raw: RawClient, bootstrap: str, topic: str, writer: str) -> None:
    """Enough for a client to split into many batches, pipelined over one connection."""
    raw.create_topic(topic)
    messages = [
        Message(b"%06d" % index + bytes(1_000).replace(b"\x00", b"x"), b"k") for index in range(3_000)
    ]
    CLIENTS[writer].produce(bootstrap, topic, messages)
    assert raw.end_offset(topic) == 3_000
    received = CLIENTS[writer].consume(bootstrap, topic, 3_000)
    assert [message.value for message in received] == [message.value for message in messages]
