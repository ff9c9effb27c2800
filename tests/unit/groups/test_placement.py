from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.groups.placement import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("\N{GRINNING FACE}", 55357 * 31 + 56832),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_the_number_without_an_absolute_value_goes_to_partition_0() -> None:
    assert partition_for("polygenelubricants", 50) == 0


@given(st.text(), st.integers(1, 100))
def test_every_group_has_a_partition(group_id: str, count: int) -> None:
    assert 0 <= partition_for(group_id, count) < count
