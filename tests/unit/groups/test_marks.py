"""What the metadata of committed offsets says."""

from __future__ import annotations

import pytest

from penstock.groups.marks import (
    PUBLISHER,
    SINK,
    SUBSCRIPTION,
    is_durable,
    is_position,
    mark_of,
    state_of,
    with_state,
)


@pytest.mark.parametrize("mark", [SUBSCRIPTION, PUBLISHER, SINK])
def test_marked_offsets_are_durable(mark: str) -> None:
    assert is_durable(mark)
    assert is_durable(with_state(mark, {"n": 1}))


@pytest.mark.parametrize(
    "metadata", [None, "", "anything", "penstock.subscriptions", "a penstock.sink", " penstock.sink"]
)
def test_other_offsets_are_not(metadata: str | None) -> None:
    assert mark_of(metadata) is None
    assert not is_durable(metadata)
    assert is_position(metadata)


def test_publishers_and_sinks_read_nothing() -> None:
    assert is_position(with_state(SUBSCRIPTION, {}))
    assert not is_position(with_state(PUBLISHER, {}))
    assert not is_position(with_state(SINK, {}))


def test_state_comes_back() -> None:
    state = {"seq": 7, "recent": [[6, 12], [7, 14]], "by": "ä"}
    assert state_of(with_state(PUBLISHER, state), PUBLISHER) == state
    assert state_of(with_state(PUBLISHER, state), SINK) is None


@pytest.mark.parametrize(
    "metadata", [PUBLISHER, f"{PUBLISHER} ", f"{PUBLISHER} {{", f"{PUBLISHER} [1]", None]
)
def test_what_is_no_state(metadata: str | None) -> None:
    assert state_of(metadata, PUBLISHER) is None
