"""Records as JSON and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.streams.encoding import message_json, take_bytes
from penstock.kafka.records import ReadRecord

contents = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode())


@given(contents, contents)
def test_whatever_is_stored_can_be_had_back(key: bytes | None, value: bytes | None) -> None:
    fields = json.loads(message_json("t", ReadRecord(2, 17, 99, key, value)))
    assert (fields["topic"], fields["partition"], fields["offset"], fields["timestamp"]) == ("t", 2, 17, 99)
    assert take_bytes(fields, "key") == key
    assert take_bytes(fields, "value") == value


def test_text_stays_text() -> None:
    fields = json.loads(message_json("t", ReadRecord(0, 0, 0, None, "grün".encode())))
    assert fields == {
        "topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "key": None, "value": "grün",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": 1}, "must be a string or null"),
        ({"value": "a", "value_base64": "YQ=="}, "not both"),
        ({"value_base64": "?"}, "not base64"),
        ({"value_base64": 1}, "must be a string"),
        ({"value": "\ud800"}, "not valid Unicode"),
    ],
)
def test_what_can_not_be_bytes(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        take_bytes(fields, "value")
