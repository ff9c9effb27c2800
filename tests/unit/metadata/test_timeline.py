"""How long things took, for the cluster log."""

from __future__ import annotations

from penstock.metadata.events import ClusterEvent, EventKind
from penstock.metadata.timeline import Timeline


def of_broker(kind: EventKind, broker_id: int = 1) -> ClusterEvent:
    return ClusterEvent(kind, f"broker {broker_id}", nodes=(broker_id,))


def of_partition(kind: EventKind, topic: str = "t", partition: int = 0) -> ClusterEvent:
    return ClusterEvent(kind, f"{topic}-{partition}", topic=topic, partition=partition)


def test_a_broker_that_returns_says_how_long_it_was_away() -> None:
    timeline = Timeline()
    timeline.told(of_broker(EventKind.BROKER_FENCED), 1_000)
    timeline.told(of_broker(EventKind.BROKER_FENCED, 2), 1_000)
    assert timeline.told(of_broker(EventKind.BROKER_REGISTERED), 4_000).text == "broker 1"
    back = timeline.told(of_broker(EventKind.BROKER_UNFENCED), 4_120)
    assert back.text == "broker 1, 0.12 s after it registered and 3.12 s after it was fenced"
    back = timeline.told(of_broker(EventKind.BROKER_UNFENCED, 2), 2_500)
    assert back.text == "broker 2, 1.50 s after it was fenced", "the same process goes on"


def test_each_time_counts_anew() -> None:
    timeline = Timeline()
    timeline.told(of_broker(EventKind.BROKER_REGISTERED), 1_000)
    timeline.told(of_broker(EventKind.BROKER_UNFENCED), 1_100)
    assert timeline.told(of_broker(EventKind.BROKER_UNFENCED), 9_000).text == "broker 1"


def test_a_partition_that_had_no_leader_says_for_how_long() -> None:
    timeline = Timeline()
    timeline.told(of_partition(EventKind.LEADER_LOST), 1_000)
    assert timeline.told(of_partition(EventKind.LEADER_ELECTED, "u"), 1_500).text == "u-0"
    elected = timeline.told(of_partition(EventKind.LEADER_ELECTED), 2_340)
    assert elected.text == "t-0, after 1.34 s without a leader"
    assert timeline.told(of_partition(EventKind.LEADER_ELECTED), 3_000).text == "t-0", "from one to the next"


def test_a_topic_of_the_same_name_is_another_one() -> None:
    timeline = Timeline()
    timeline.told(of_partition(EventKind.LEADER_LOST), 1_000)
    timeline.told(ClusterEvent(EventKind.TOPIC_DELETED, "t", topic="t"), 2_000)
    assert timeline.told(of_partition(EventKind.LEADER_ELECTED), 3_000).text == "t-0"


def test_a_broker_that_left_for_good_is_forgotten() -> None:
    timeline = Timeline()
    timeline.told(of_broker(EventKind.BROKER_FENCED), 1_000)
    timeline.told(of_broker(EventKind.BROKER_UNREGISTERED), 2_000)
    assert timeline.told(of_broker(EventKind.BROKER_UNFENCED), 3_000).text == "broker 1"


def test_clocks_that_differ_make_no_negative_time() -> None:
    timeline = Timeline()
    timeline.told(of_partition(EventKind.LEADER_LOST), 1_000)
    elected = timeline.told(of_partition(EventKind.LEADER_ELECTED), 900)
    assert elected.text == "t-0, after 0.00 s without a leader"
