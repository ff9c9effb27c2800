from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.offsets import (
    OffsetRange,
    Partition,
    bundles,
    from_json,
    losses,
    plan,
    ranges,
    share,
    to_json,
)

A0, A1, A2, B0 = Partition("a", 0), Partition("a", 1), Partition("a", 2), Partition("b", 0)

partitions = st.builds(Partition, st.sampled_from(["a", "b", "topic.x"]), st.integers(0, 12))
offsets = st.dictionaries(partitions, st.integers(0, 10**12), max_size=12)


def test_json_is_sorted_by_topic_and_number() -> None:
    unsorted = {Partition("b", 0): 1, Partition("a", 10): 2, Partition("a", 9): 3}
    assert json.dumps(to_json(unsorted)) == '{"a": {"9": 3, "10": 2}, "b": {"0": 1}}'


@given(offsets)
def test_json_and_back(found: dict[Partition, int]) -> None:
    text = json.dumps(to_json(found))
    assert from_json(json.loads(text)) == found
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


@pytest.mark.parametrize("wrong", [[], {"a": 1}, {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"0": True}}])
def test_json_that_is_something_else(wrong: object) -> None:
    with pytest.raises(ValueError):
        from_json(wrong)


def test_ranges_leave_out_what_is_new_empty_or_gone() -> None:
    start = {A0: 5, A1: 7, B0: 3}
    end = {A0: 9, A1: 7, A2: 4}
    assert ranges(start, end) == [OffsetRange(A0, 5, 9)]


def test_without_a_limit_everything_is_read() -> None:
    assert plan({A0: 5, A1: 7}, {}, {A0: 9, A1: 70}, None) == {A0: 9, A1: 70}


def test_a_limit_is_shared_by_lag() -> None:
    assert plan({A0: 0, A1: 0}, {}, {A0: 300, A1: 100}, 40) == {A0: 30, A1: 10}


def test_a_new_partition_begins_at_its_earliest_offset_in_the_batch_after() -> None:
    first = plan({A0: 5}, {A1: 2}, {A0: 9, A1: 8}, None)
    assert first == {A0: 9, A1: 2}
    assert ranges({A0: 5}, first) == [OffsetRange(A0, 5, 9)]
    second = plan(first, {}, {A0: 9, A1: 8}, None)
    assert ranges(first, second) == [OffsetRange(A1, 2, 8)]


def test_a_topic_that_is_gone_is_forgotten() -> None:
    assert plan({A0: 5, B0: 3}, {}, {A0: 6}, None) == {A0: 6}


def test_a_log_that_was_deleted_and_created_again_is_read_from_its_beginning() -> None:
    first = plan({A0: 500}, {A0: 0}, {A0: 9}, None)
    assert first == {A0: 0}
    assert ranges({A0: 500}, first) == []
    assert plan(first, {A0: 0}, {A0: 9}, None) == {A0: 9}


def test_offsets_that_are_gone_do_not_use_up_the_limit() -> None:
    assert plan({A0: 5}, {A0: 1_000}, {A0: 2_000}, 10) == {A0: 1_010}


lags = st.dictionaries(partitions, st.integers(0, 10_000), max_size=12)


@given(lags, st.integers(1, 20_000))
def test_shares(lag: dict[Partition, int], limit: int) -> None:
    shares = share(lag, limit)
    behind = [partition for partition in lag if lag[partition]]
    assert shares.keys() == lag.keys()
    assert all(0 <= shares[partition] <= lag[partition] for partition in lag)
    assert all(shares[partition] >= 1 for partition in behind), "a partition starves"
    assert sum(shares.values()) == min(sum(lag.values()), max(limit, len(behind)))
    assert share(dict(reversed(lag.items())), limit) == shares, "the order of a dict matters"
    if limit >= len(behind):
        for one in behind:
            for other in behind:
                assert lag[one] < lag[other] or shares[one] >= shares[other] - 1, "not in proportion"


@given(offsets, offsets, offsets, st.none() | st.integers(1, 100))
def test_a_plan_comes_to_an_end_and_reads_each_offset_once(
    start: dict[Partition, int],
    earliest: dict[Partition, int],
    lag: dict[Partition, int],
    limit: int | None,
) -> None:
    """What AvailableNow does: the same target until the plan is the start."""
    lag = {partition: count % 500 for partition, count in lag.items()}
    latest = {partition: max(start.get(partition, 0), 0) + count for partition, count in lag.items()}
    first = {
        partition: min(earliest.get(partition, 0), latest[partition])
        for partition in latest
        if partition not in start
    }
    position, read = start, []
    for _ in range(20_000):
        end = plan(position, first, latest, limit)
        if end == position:
            break
        read += ranges(position, end)
        position = end
    assert position == latest
    for partition, last in latest.items():
        at = start.get(partition, first.get(partition, 0))
        for found in read:
            if found.partition == partition:
                assert found.start == at
                at = found.end
        assert at == last


def test_losses_are_named() -> None:
    assert losses({A0: 5, A1: 6, B0: 3}, {A0: 5, A1: 7, B0: 3}) == []
    gone, shorter = losses({A0: 5, B0: 3}, {B0: 2})
    assert gone == "partition a-0 is gone, it was read up to offset 5"
    assert shorter.startswith("partition b-0 was read up to offset 3 and now ends at 2")


@given(offsets, st.none() | st.integers(1, 15))
def test_bundles_hold_every_range_once_and_are_as_even_as_single_ranges_allow(
    ends: dict[Partition, int], count_max: int | None
) -> None:
    found = ranges(dict.fromkeys(ends, 0), ends)
    made = bundles(found, count_max)
    assert sorted((each for bundle in made for each in bundle), key=lambda each: each.partition) == found
    assert all(made)
    if count_max is None or len(found) <= count_max:
        assert [len(bundle) for bundle in made] == [1] * len(found)
        return
    assert len(made) == count_max
    sizes = [sum(each.end - each.start for each in bundle) for bundle in made]
    assert max(sizes) - min(sizes) <= max(each.end - each.start for each in found)
