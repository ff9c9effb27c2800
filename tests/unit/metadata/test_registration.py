from __future__ import annotations

from penstock.metadata.image import MetadataImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.metadata.registration import register_alone
from tests.unit.metadata.builders import apply, cluster, fenced, partition_of, registration, with_topic


def test_the_first_start_says_what_the_log_may_contain() -> None:
    records = register_alone(MetadataImage(), registration(1))
    assert isinstance(records[0], FeatureLevelRecord)
    image, _ = apply(MetadataImage(), records)
    assert [broker.id for broker in image.live_brokers()] == [1]
    assert not any(
        isinstance(record, FeatureLevelRecord) for record in register_alone(image, registration(1, epoch=9))
    )


def test_a_new_incarnation_gets_new_epochs_for_what_it_led() -> None:
    image = with_topic(cluster(2), "mine", partitions=2, replicas=(1, 2))
    image = with_topic(image, "theirs", topic_id=2, replicas=(2, 1))
    after, delta = apply(image, register_alone(image, registration(1, epoch=5)))
    assert [each.leader_epoch for each in after.topics["mine"].partitions.values()] == [1, 1]
    assert [each.partition_epoch for each in after.topics["mine"].partitions.values()] == [1, 1]
    assert after.topics["theirs"] is image.topics["theirs"]
    assert after.brokers[1].epoch == 5
    assert list(delta.changed) == ["mine"]


def test_what_had_no_leader_is_led_again() -> None:
    image = fenced(with_topic(cluster(2), "t", replicas=(1, 2)), 2, 1)
    image = with_topic(image, "theirs", topic_id=2, replicas=(2,))
    image = fenced(image, 2)
    assert partition_of(image)[:4] == (-1, 1, (1, 2), (1,))
    after, _ = apply(image, register_alone(image, registration(1, epoch=5)))
    assert partition_of(after)[:4] == (1, 2, (1, 2), (1,))
    assert partition_of(after, "theirs") == partition_of(image, "theirs")
