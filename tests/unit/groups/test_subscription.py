from __future__ import annotations

import io

import kio.schema.consumer_protocol_subscription.v0.data as oldest
import kio.schema.consumer_protocol_subscription.v3.data as newest
import pytest
from kio.serial import entity_writer

from penstock.groups.subscription import maybe_topics, maybe_union


def encoded(version: int, schema: object, **fields: object) -> bytes:
    entity_type = schema.ConsumerProtocolSubscription
    buffer = io.BytesIO()
    entity_writer(entity_type)(buffer, entity_type(**fields))
    return version.to_bytes(2) + buffer.getvalue()


def test_topics_of_the_oldest_and_of_newer_versions() -> None:
    assert maybe_topics(encoded(0, oldest, topics=("a", "b"), user_data=None)) == {"a", "b"}
    newer = encoded(
        3, newest, topics=("a",), user_data=b"x", owned_partitions=(), generation_id=3, rack_id="r"
    )
    assert maybe_topics(newer) == {"a"}
    assert maybe_topics(b"\x00\x63" + newer[2:]) == {"a"}


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff\x00", b"nonsense", b"\x00\x00\x7f\xff\xff\xff"]
)
def test_other_metadata_is_not_a_subscription(metadata: bytes) -> None:
    assert maybe_topics(metadata) is None


def test_one_unreadable_subscription_hides_the_union() -> None:
    good = encoded(0, oldest, topics=("a",), user_data=None)
    other = encoded(0, oldest, topics=("b",), user_data=None)
    assert maybe_union([good, other]) == {"a", "b"}
    assert maybe_union([good, b"nonsense"]) is None
