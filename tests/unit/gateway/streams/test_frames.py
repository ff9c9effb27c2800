"""Frames of clients that write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.gateway.streams.frames import Frame, FrameError, read_frame, refused, stored

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["value", "key", "partition", "sequence", "value_base64", "key_base64"])


def read(**fields: Any) -> Frame:
    return read_frame({"type": "websocket.receive", "text": json.dumps(fields)})


def test_messages() -> None:
    assert read(value="a") == Frame(b"a")
    assert read(value=None) == Frame(None)
    assert read(value="a", key="k", partition=2, sequence=5) == Frame(b"a", b"k", 2, 5)
    assert read(value_base64="/w==", key_base64="") == Frame(b"\xff", b"")
    assert read_frame({"bytes": b"\xff"}) == Frame(b"\xff")
    assert read_frame({"bytes": b""}) == Frame(b"")


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"key":"k"}', '{"value":"a","sequence":-1}'])
def test_what_is_no_message(text: str) -> None:
    with pytest.raises(FrameError):
        read_frame({"text": text})


def test_an_error_names_the_sequence_where_there_is_one() -> None:
    with pytest.raises(FrameError) as caught:
        read(value=1, sequence=4)
    assert caught.value.sequence == 4


@given(st.dictionaries(names | st.text(max_size=5), anything, max_size=6))
def test_any_object_is_a_message_or_an_error(fields: dict[str, Any]) -> None:
    try:
        frame = read(**{"value": "a", **fields})
    except FrameError:
        return
    assert frame.sequence is None or frame.sequence >= 0


def test_answers() -> None:
    assert json.loads(stored(None, 1, 2)) == {"partition": 1, "offset": 2}
    assert json.loads(stored(7, 1, 2)) == {"sequence": 7, "partition": 1, "offset": 2}
    assert json.loads(stored(7, 1, None, duplicate=True)) == {
        "sequence": 7, "partition": 1, "offset": None, "duplicate": True,
    }  # fmt: skip
    assert json.loads(refused("no", 3, expected=2)) == {
        "status": "failure", "message": "no", "sequence": 3, "expected": 2,
    }  # fmt: skip
