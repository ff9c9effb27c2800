"""Arguments and messages, which are the same for both transports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import InvalidMessageError, Producer, TopicNotFoundError
from penstock.client.types import (
    check_timeout,
    consumer_ids,
    is_http,
    require_topic,
    single_id,
    to_bytes,
    to_text,
    topic_names,
)


@given(st.binary())
def test_any_bytes_survive_as_text(data: bytes) -> None:
    assert to_bytes(to_text(data)) == data


@given(st.text())
def test_any_text_is_utf_8(text: str) -> None:
    assert to_bytes(text) == text.encode()
    assert to_text(to_bytes(text)) == text


def test_messages_that_cannot_be_sent() -> None:
    with pytest.raises(InvalidMessageError):
        to_bytes("\ud800")
    with pytest.raises(TypeError):
        to_bytes(5)  # type: ignore[arg-type]  # as a caller without a type checker may


def test_topic_names() -> None:
    assert topic_names("orders") == ("orders",)
    assert topic_names(["b", "a", "b"]) == ("b", "a")
    for none in ([], "", ["a", ""]):
        with pytest.raises(ValueError, match=r"topic"):
            topic_names(none)
    with pytest.raises(TypeError):
        topic_names([b"a"])  # type: ignore[list-item]


def test_a_topic_that_was_not_named() -> None:
    require_topic("a", ("a", "b"))
    with pytest.raises(TopicNotFoundError, match=r"'c'.*a, b"):
        require_topic("c", ("a", "b"))


def test_ids() -> None:
    assert consumer_ids(("a", "b"), 7) == {"a": 7, "b": 7}
    assert consumer_ids(("a",), {"a": 7, "b": 8}) == {"a": 7}
    assert single_id({"a": 7, "b": 7}) == 7
    with pytest.raises(ValueError, match="ids"):
        single_id({"a": 7, "b": 8})
    for bad in (0, -1, {"a": 0}, {"b": 1}):
        with pytest.raises(ValueError, match="id"):
            consumer_ids(("a",), bad)
    for odd in (True, "7", 7.0, {"a": None}):
        with pytest.raises(TypeError):
            consumer_ids(("a",), odd)  # type: ignore[arg-type]


def test_which_broker_is_a_gateway() -> None:
    assert is_http("http://a")
    assert is_http("HTTPS://a")
    assert not is_http("127.0.0.1:9092")


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e9])
def test_timeouts_that_are_none(timeout_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        check_timeout(timeout_s)


def test_a_token_is_for_http() -> None:
    with pytest.raises(ValueError, match="token"):
        Producer("a", "127.0.0.1:9092", token="secret")
