from __future__ import annotations

import pytest

from penstock.storage import LeaderEpochs


def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 0), (4, 10), (7, 25)])


def test_end_offset_of_an_epoch_is_the_start_of_the_next_known_one() -> None:
    known = epochs()
    assert known.end_offset(7, 40) == (7, 40)
    assert known.end_offset(4, 40) == (4, 25)
    assert known.end_offset(2, 40) == (2, 10)


def test_end_offset_of_an_unknown_epoch_is_that_of_the_largest_below() -> None:
    known = epochs()
    assert known.end_offset(6, 40) == (4, 25)
    assert known.end_offset(3, 40) == (2, 10)
    assert known.end_offset(1, 40) == (1, 0)
    assert known.end_offset(8, 40) == (-1, -1)
    assert known.end_offset(-1, 40) == (-1, -1)
    assert LeaderEpochs().end_offset(0, 40) == (-1, -1)


def test_assigning_the_current_epoch_again_changes_nothing() -> None:
    known = epochs()
    version = known.version
    known.assign(7, 30)
    known.assign(-1, 30)
    assert known.entries == epochs().entries
    assert known.version == version


def test_an_epoch_that_wrote_nothing_is_replaced_by_its_successor() -> None:
    known = epochs()
    known.assign(8, 30)
    known.assign(9, 30)
    assert known.entries[-2:] == [(7, 25), (9, 30)]
    assert known.latest == 9


def test_an_older_epoch_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="leader epoch 5 after 7"):
        epochs().assign(5, 30)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, []), (1, [(2, 0)]), (10, [(2, 0)]), (11, [(2, 0), (4, 10)]), (26, [(2, 0), (4, 10), (7, 25)])],
)
def test_truncating_the_end(offset: int, expected: list[tuple[int, int]]) -> None:
    known = epochs()
    known.truncate_end(offset)
    assert known.entries == expected
    assert known.latest == (expected[-1][0] if expected else -1)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, [(2, 0), (4, 10), (7, 25)]),
        (5, [(2, 5), (4, 10), (7, 25)]),
        (10, [(4, 10), (7, 25)]),
        (24, [(4, 24), (7, 25)]),
        (30, [(7, 30)]),
    ],
)
def test_truncating_the_start(offset: int, expected: list[tuple[int, int]]) -> None:
    known = epochs()
    known.truncate_start(offset)
    assert known.entries == expected


def test_epoch_at() -> None:
    known = epochs()
    assert [known.epoch_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [2, 2, 4, 4, 7, 7]
    assert LeaderEpochs([(3, 5)]).epoch_at(4) == -1
