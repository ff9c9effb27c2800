from __future__ import annotations

import pytest

from penstock.metadata.topic_names import collision_key, problem_with


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "...", "x" * 249, "__consumer_offsets"])
def test_names_that_kafka_takes(name: str) -> None:
    assert problem_with(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "ä", "a/b", "a\n", "a:b", "a\0"])
def test_names_that_kafka_refuses(name: str) -> None:
    assert problem_with(name) is not None


def test_dot_and_underscore_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")
