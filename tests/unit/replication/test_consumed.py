"""What consumed retention takes from a partition, round by round."""

from __future__ import annotations

from penstock.replication.consumed import NOTHING, ConsumedPartition, Removal, readers_of

GRACE_MS = 1_000


def round_of(
    core: ConsumedPartition,
    end_offset: int,
    readers: dict[str, int],
    *,
    now_ms: int = 0,
    ceiling: int = 0,
    grace_ms: int = GRACE_MS,
) -> Removal:
    core.begin_round(end_offset)
    return core.decide(readers, now_ms=now_ms, grace_ms=grace_ms, ceiling=ceiling)


def after_a_round(end_offset: int) -> ConsumedPartition:
    core = ConsumedPartition()
    core.begin_round(end_offset)
    return core


def test_the_first_round_of_a_leader_removes_nothing() -> None:
    assert round_of(ConsumedPartition(), 100, {"a": 100}).before == NOTHING


def test_what_all_have_got_goes() -> None:
    core = after_a_round(100)
    assert round_of(core, 100, {"a": 70, "b": 30}).before == 30
    assert round_of(core, 100, {"a": 70, "b": 100}).before == 70
    assert round_of(core, 100, {"a": 100, "b": 100}).before == 100


def test_a_round_goes_no_further_than_the_end_of_the_round_before() -> None:
    # Somebody may be subscribing with a high watermark of 100 that no coordinator has heard of.
    core = after_a_round(100)
    assert round_of(core, 200, {"a": 200}).before == 100
    assert round_of(core, 200, {"a": 200}).before == 200


def test_a_subscription_without_a_position_here_holds_everything() -> None:
    groups = {"old": {0: 50, 1: 7}, "new": {0: 3}}
    readers = readers_of(groups, 1, high_watermark=10)
    assert readers == {"old": 7, "new": 0}
    assert round_of(after_a_round(10), 10, readers).before == 0


def test_a_position_beyond_the_end_is_of_something_else() -> None:
    assert readers_of({"g": {0: 11}, "h": {0: 10}}, 0, high_watermark=10) == {"h": 10}
    assert readers_of({"g": {0: 11}}, 0, high_watermark=10) == {}


def test_without_a_subscription_what_is_there_goes_after_the_grace_time() -> None:
    core = after_a_round(10)
    assert round_of(core, 20, {}, now_ms=0).before == NOTHING
    assert round_of(core, 30, {}, now_ms=GRACE_MS - 1).before == NOTHING
    assert round_of(core, 40, {}, now_ms=GRACE_MS).before == 20, "what came later has its own grace time"
    assert round_of(core, 50, {}, now_ms=2 * GRACE_MS - 1).before == NOTHING
    assert round_of(core, 50, {}, now_ms=2 * GRACE_MS).before == 40


def test_a_subscription_ends_the_grace_time() -> None:
    core = after_a_round(10)
    round_of(core, 10, {}, now_ms=0)
    assert round_of(core, 10, {"a": 5}, now_ms=GRACE_MS).before == 5
    assert round_of(core, 10, {}, now_ms=GRACE_MS + 1).before == NOTHING
    assert round_of(core, 10, {}, now_ms=2 * GRACE_MS).before == NOTHING
    assert round_of(core, 10, {}, now_ms=2 * GRACE_MS + 1).before == 10


def test_no_grace_time_still_waits_for_the_next_round() -> None:
    core = ConsumedPartition()
    assert round_of(core, 10, {}, grace_ms=0).before == NOTHING
    assert round_of(core, 20, {}, grace_ms=0).before == 10


def test_a_ceiling_takes_what_is_needed_and_says_from_whom() -> None:
    core = after_a_round(100)
    removal = round_of(core, 100, {"slow": 10, "fast": 90, "absent": 0}, ceiling=60)
    assert removal.before == 60
    assert removal.lost == {"absent": 0, "slow": 10}
    assert "retention.consumed.ms" in removal.reason
    assert round_of(core, 100, {"slow": 80, "fast": 90}, ceiling=60) == Removal(
        80, "got by all subscriptions (2)", {}
    )
