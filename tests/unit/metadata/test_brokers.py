from __future__ import annotations

from uuid import UUID

import pytest

from penstock.metadata.brokers import (
    Registration,
    fence_broker,
    register_broker,
    stop_broker,
    unfence_broker,
    unregister_broker,
)
from penstock.metadata.image import NO_LEADER, MetadataImage, ResourceType
from penstock.metadata.partition_changes import IsrChange, alter_partitions
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    ShutdownBrokerRecord,
)
from penstock.metadata.snapshot import snapshot_records
from penstock.types import ApiError, ErrorCode
from tests.unit.metadata.builders import (
    STORAGE_ID,
    apply,
    at_least,
    causes,
    cluster,
    fenced,
    partition_of,
    with_topic,
)

NEW = UUID(int=5000)
WIPED = UUID(int=78)


def registered(
    image: MetadataImage,
    broker_id: int,
    *,
    storage_id: UUID = STORAGE_ID,
    is_clean: bool = True,
    minimum: int = 1,
) -> tuple[MetadataImage, list[str | None]]:
    """The image after a new incarnation came, and why partitions changed."""
    registration = Registration(broker_id, NEW, storage_id, "localhost", 9092, None, is_clean)
    records, _ = register_broker(
        image, registration, broker_epoch=50, is_alive=False, min_insync=at_least(minimum)
    )
    return apply(image, records)[0], causes(records)


# Registration


def test_the_first_broker_says_what_the_log_may_contain_and_begins_fenced() -> None:
    registration = Registration(1, NEW, STORAGE_ID, "localhost", 9092, "rack-1")
    records, epoch = register_broker(
        MetadataImage(), registration, broker_epoch=7, is_alive=False, min_insync=at_least(1)
    )
    assert isinstance(records[0], FeatureLevelRecord)
    broker = apply(MetadataImage(), records)[0].brokers[1]
    assert (epoch, broker.epoch, broker.fenced, broker.rack) == (7, 7, True, "rack-1")


def test_a_repeated_registration_changes_nothing() -> None:
    image, _ = registered(cluster(1), 1)
    again = Registration(1, NEW, STORAGE_ID, "localhost", 9092)
    assert register_broker(image, again, broker_epoch=99, is_alive=True, min_insync=at_least(1)) == ([], 50)


def test_two_living_brokers_with_one_id_are_refused() -> None:
    image = cluster(1)
    other = Registration(1, NEW, WIPED, "elsewhere", 9092)
    with pytest.raises(ApiError, match="Another broker is running as 1, at localhost:9092") as refusal:
        register_broker(image, other, broker_epoch=5, is_alive=True, min_insync=at_least(1))
    assert refusal.value.code is ErrorCode.duplicate_broker_registration
    # The same folder proves that the old process is dead, and a fenced or silent one is taken for dead.
    same = Registration(1, NEW, STORAGE_ID, "localhost", 9092)
    assert register_broker(image, same, broker_epoch=5, is_alive=True, min_insync=at_least(1))[1] == 5
    assert register_broker(image, other, broker_epoch=5, is_alive=False, min_insync=at_least(1))[1] == 5
    image = fenced(image, 1)
    assert register_broker(image, other, broker_epoch=5, is_alive=True, min_insync=at_least(1))[1] == 5


def test_what_the_last_incarnation_led_goes_to_another_replica() -> None:
    image, why = registered(with_topic(cluster(3), "t", replicas=(1, 2, 3)), 1, minimum=2)
    partition = partition_of(image)
    assert (partition.leader, partition.isr) == (2, (2, 3))
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
    assert why == ["broker 1 started: a new process on the same data"]


def test_what_nobody_else_can_lead_waits_for_the_broker_under_a_new_epoch() -> None:
    image, _ = registered(with_topic(cluster(1), "t"), 1)
    assert partition_of(image)[:4] == (NO_LEADER, 1, (1,), (1,))
    image, _ = apply(image, unfence_broker(image, 1, at_least(1)))
    assert partition_of(image)[:4] == (1, 2, (1,), (1,))


def test_a_clean_member_that_the_minimum_needs_stays_in_sync() -> None:
    image, _ = registered(with_topic(cluster(2), "t", replicas=(1, 2)), 2, minimum=2)
    assert partition_of(image) == (1, 0, (1, 2), (1, 2), 0, (), (), (), (), (), ())


@pytest.mark.parametrize(
    ("storage_id", "is_clean", "why"),
    [(WIPED, True, "its data folder is another one"), (STORAGE_ID, False, "its last stop was not clean")],
)
def test_a_member_that_may_have_lost_data_leaves_even_below_the_minimum(
    storage_id: UUID, is_clean: bool, why: str
) -> None:
    before = with_topic(cluster(3), "t", replicas=(1, 2, 3), isr=(1, 2))
    image, told = registered(before, 2, storage_id=storage_id, is_clean=is_clean, minimum=2)
    assert (partition_of(image).leader, partition_of(image).isr) == (1, (1,))
    assert told[0] is not None
    assert why in told[0]


def test_the_last_member_is_not_elected_with_an_empty_disk() -> None:
    image = fenced(with_topic(cluster(2), "t", replicas=(1, 2)), 2, 1)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (1,))
    image, _ = registered(image, 1, storage_id=WIPED)
    assert (partition_of(image).isr, partition_of(image).wiped) == ((), (1,))
    for broker_id in (1, 2):
        image, _ = apply(image, unfence_broker(image, broker_id, at_least(1)))
    assert partition_of(image).leader == NO_LEADER


def test_who_may_have_lost_the_end_of_its_log_is_remembered_until_a_leader_proves_to_be_one() -> None:
    image, _ = registered(with_topic(cluster(3), "t", replicas=(1, 2, 3)), 1, is_clean=False)
    # The metadata say that 2 leads. Whether it is alive, they cannot know.
    assert (partition_of(image).leader, partition_of(image).last_isr) == (2, (1,))
    again = Registration(1, UUID(int=5001), STORAGE_ID, "localhost", 9092)
    records, _ = register_broker(image, again, broker_epoch=60, is_alive=False, min_insync=at_least(1))
    assert partition_of(apply(image, records)[0]).last_isr == (1,), "also through a clean restart"
    topic = image.topics["t"]
    change = IsrChange(topic.topic_id, 0, 1, partition_of(image).partition_epoch, ((2, 0),))
    records, (outcome,) = alter_partitions(image, 2, 0, [change], at_least(1))
    assert outcome.error is None
    assert partition_of(apply(image, records)[0]).last_isr == ()


def test_a_disk_that_is_lost_after_an_unclean_stop_is_not_waited_for() -> None:
    image, _ = registered(with_topic(cluster(1), "t"), 1, is_clean=False)
    assert (partition_of(image).last_isr, partition_of(image).wiped) == ((1,), ())
    registration = Registration(1, UUID(int=5001), WIPED, "localhost", 9092)
    records, _ = register_broker(image, registration, broker_epoch=60, is_alive=False, min_insync=at_least(1))
    image, _ = apply(image, records)
    assert (partition_of(image).last_isr, partition_of(image).wiped) == ((), (1,))


@pytest.mark.parametrize("topic", ["__consumer_offsets", "synced"])
def test_what_is_synced_before_it_is_acknowledged_bears_a_stop_that_was_not_clean(topic: str) -> None:
    image = with_topic(cluster(2), topic, replicas=(1, 2))
    if topic == "synced":
        image, _ = apply(image, [ConfigRecord(ResourceType.TOPIC, topic, "flush", "commit")])
    after, _ = registered(image, 2, is_clean=False, minimum=2)
    assert partition_of(after, topic).isr == (1, 2)
    registration = Registration(2, NEW, STORAGE_ID, "localhost", 9092, is_clean=False, is_damaged=True)
    records, _ = register_broker(image, registration, broker_epoch=50, is_alive=False, min_insync=at_least(2))
    assert partition_of(apply(image, records)[0], topic).isr == (1,), "a damaged log is lost all the same"


# Fencing


def test_a_fenced_leader_is_replaced_in_the_order_of_replicas() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 3, 2))
    records = fence_broker(image, 1, "no heartbeat for 2000 ms", at_least(2))
    assert records[0] == FenceBrokerRecord(1, 0, "no heartbeat for 2000 ms")
    assert causes(records) == ["broker 1 was fenced: no heartbeat for 2000 ms"]
    image, _ = apply(image, records)
    assert partition_of(image)[:5] == (3, 1, (1, 3, 2), (3, 2), 1)


def test_a_fenced_follower_leaves_the_set_and_the_leader_keeps_its_epoch() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3)), 2, minimum=2)
    assert partition_of(image)[:5] == (1, 0, (1, 2, 3), (1, 3), 1)


def test_the_set_never_shrinks_below_the_minimum() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3)), 1, 2, minimum=2)
    assert (partition_of(image).leader, partition_of(image).isr) == (3, (2, 3))
    image = fenced(image, 3, minimum=2)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (2, 3))
    # Either of the two holds all that was acknowledged.
    image, _ = apply(image, unfence_broker(image, 2, at_least(2)))
    assert (partition_of(image).leader, partition_of(image).isr) == (2, (2, 3))


def test_with_a_minimum_of_one_all_but_the_last_may_die() -> None:
    image = fenced(with_topic(cluster(5), "t", replicas=(1, 2, 3, 4, 5)), 3, 1, 5, 2)
    assert (partition_of(image).leader, partition_of(image).isr) == (4, (4,))
    image = fenced(image, 4)
    assert (partition_of(image).leader, partition_of(image).isr) == (NO_LEADER, (4,))
    image, _ = apply(image, unfence_broker(image, 3, at_least(1)))
    assert partition_of(image).leader == NO_LEADER  # 3 is not in sync
    image, _ = apply(image, unfence_broker(image, 4, at_least(1)))
    assert partition_of(image).leader == 4


def test_who_is_fenced_or_unknown_is_not_fenced_again() -> None:
    image = fenced(cluster(1), 1)
    assert fence_broker(image, 1, "again", at_least(1)) == []
    assert fence_broker(image, 9, "never seen", at_least(1)) == []


def test_unfencing_leaves_leaders_where_they_are() -> None:
    image = fenced(with_topic(cluster(3), "t", replicas=(1, 2, 3)), 1, minimum=2)
    records = unfence_broker(image, 1, at_least(2))
    assert causes(records) == []
    image, _ = apply(image, records)
    assert unfence_broker(image, 1, at_least(2)) == []


def test_unfencing_an_unknown_broker_is_an_error() -> None:
    with pytest.raises(ApiError) as refusal:
        unfence_broker(cluster(1), 2, at_least(1))
    assert refusal.value.code is ErrorCode.broker_id_not_registered


# Stopping


def test_a_stopping_broker_gives_up_what_others_can_lead() -> None:
    image = with_topic(cluster(3), "t", replicas=(1, 2, 3))
    image = with_topic(image, "alone", topic_id=2, replicas=(1,))
    records = stop_broker(image, 1, at_least(2))
    assert records[0] == ShutdownBrokerRecord(1, 0)
    image, _ = apply(image, records)
    assert partition_of(image)[:4] == (2, 1, (1, 2, 3), (2, 3))
    assert partition_of(image, "alone")[:4] == (1, 0, (1,), (1,))
    assert [broker.id for broker in image.live_brokers()] == [1, 2, 3]
    assert [broker.id for broker in image.electable_brokers()] == [2, 3]
    assert stop_broker(image, 1, at_least(2)) == []
    assert partition_of(fenced(image, 1), "alone").leader == NO_LEADER


def test_a_stopping_broker_stays_in_sync_where_the_minimum_needs_it_and_is_not_elected() -> None:
    image = with_topic(cluster(2), "t", replicas=(1, 2))
    image, _ = apply(image, stop_broker(image, 2, at_least(2)))
    assert partition_of(image)[:4] == (1, 0, (1, 2), (1, 2))
    assert partition_of(fenced(image, 1, minimum=2)).leader == NO_LEADER


def test_a_stopping_broker_is_not_unfenced_but_its_next_incarnation_is() -> None:
    image = cluster(1)
    image, _ = apply(image, stop_broker(image, 1, at_least(1)))
    image = fenced(image, 1)
    assert unfence_broker(image, 1, at_least(1)) == []
    image, _ = registered(image, 1)
    image, _ = apply(image, unfence_broker(image, 1, at_least(1)))
    assert [broker.id for broker in image.electable_brokers()] == [1]


# Going for good


def test_a_broker_that_holds_replicas_is_not_unregistered() -> None:
    image = with_topic(cluster(2), "t", partitions=3, replicas=(1,))
    with pytest.raises(ApiError, match=r"Broker 1 holds 3 replica\(s\), of t-0"):
        unregister_broker(image, 1)
    image, _ = apply(image, unregister_broker(image, 2))
    assert list(image.brokers) == [1]
    with pytest.raises(ApiError, match="No broker 2 is registered"):
        unregister_broker(image, 2)


def test_the_last_broker_that_is_alive_is_not_unregistered() -> None:
    image = fenced(cluster(2), 1)
    with pytest.raises(ApiError, match="Broker 2 cannot be decommissioned: no other broker is alive"):
        unregister_broker(image, 2)
    image, _ = apply(image, unregister_broker(image, 1))
    assert list(image.brokers) == [2]


def registration_of(broker_id: int, storage_id: UUID) -> Registration:
    return Registration(broker_id, NEW, storage_id, "localhost", 9092)


def test_who_left_for_good_does_not_come_back_with_its_folder() -> None:
    image = cluster(2)
    image, _ = apply(image, unregister_broker(image, 2))
    remembered, _ = apply(MetadataImage(), snapshot_records(image))
    for known in (image, remembered):
        with pytest.raises(ApiError, match="Broker 2 was decommissioned") as caught:
            register_broker(
                known,
                registration_of(2, STORAGE_ID),
                broker_epoch=9,
                is_alive=True,
                min_insync=at_least(1),
            )
        assert caught.value.code is ErrorCode.broker_id_not_registered


def test_a_registration_after_unregistering_is_that_of_a_new_broker() -> None:
    image = cluster(2)
    image, _ = apply(image, unregister_broker(image, 2))
    records, _ = register_broker(
        image,
        registration_of(2, WIPED),
        broker_epoch=9,
        is_alive=True,
        min_insync=at_least(1),
    )
    assert [record.cause for record in records if isinstance(record, RegisterBrokerRecord)] == [
        "new in the cluster"
    ]
