from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.load import HALF_LIFE_MS, STALE_MS, BrokerLoad, ClusterLoad, PartitionLoad

KEY = (UUID(int=1), 0)


def busy(share: float) -> BrokerLoad:
    return BrokerLoad(share, 2 * share, 10 * share, 5, 10, {KEY: PartitionLoad(100 * share, 0.0, share)})


def test_what_was_heard_a_half_life_ago_counts_half() -> None:
    load = ClusterLoad()
    load.heard(1, busy(0.0), 0)
    load.heard(1, busy(0.8), HALF_LIFE_MS)
    found = load.all(HALF_LIFE_MS)[1]
    assert (found.busy, found.cpu, found.queue_ms) == pytest.approx((0.4, 0.8, 4))
    assert found.partitions[KEY] == pytest.approx(PartitionLoad(40, 0, 0.4))
    assert (found.disk_free, found.disk_size) == (5, 10)


def test_it_does_not_matter_how_often_it_is_heard() -> None:
    rarely, often = ClusterLoad(), ClusterLoad()
    for load, steps in ((rarely, 1), (often, 8)):
        load.heard(1, busy(0.0), 0)
        for step in range(1, steps + 1):
            load.heard(1, busy(0.8), HALF_LIFE_MS * step // steps)
    assert often.all(HALF_LIFE_MS)[1].busy == pytest.approx(rarely.all(HALF_LIFE_MS)[1].busy)


def test_a_partition_that_is_not_mentioned_any_more_fades_and_is_forgotten() -> None:
    load = ClusterLoad()
    load.heard(1, busy(0.8), 0)
    quiet = BrokerLoad(0.1)
    load.heard(1, quiet, HALF_LIFE_MS)
    assert load.all(HALF_LIFE_MS)[1].partitions[KEY].share == pytest.approx(0.4)
    for beat in range(2, 20):
        load.heard(1, quiet, HALF_LIFE_MS * beat)
    assert load.all(HALF_LIFE_MS * 19)[1].partitions == {}


def test_who_was_silent_for_long_is_not_known_and_begins_anew() -> None:
    load = ClusterLoad()
    load.heard(1, busy(0.8), 0)
    assert load.maybe_of(1, STALE_MS) is not None
    assert load.maybe_of(1, STALE_MS + 1) is None
    assert load.all(STALE_MS + 1) == {}
    load.heard(1, busy(0.2), STALE_MS + 1)
    assert load.all(STALE_MS + 1)[1].busy == 0.2
