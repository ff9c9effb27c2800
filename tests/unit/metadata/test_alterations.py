from __future__ import annotations

import pytest

from penstock.metadata.alterations import (
    Alteration,
    ConfigOutcome,
    Operation,
    ResourceAlteration,
    alter_configs,
    replace_configs,
)
from penstock.metadata.image import ConfigResource, MetadataImage, ResourceType
from penstock.types import ErrorCode
from tests.unit.metadata.builders import apply, cluster, with_topic

TOPIC = ConfigResource(ResourceType.TOPIC, "a")
BROKER = ConfigResource(ResourceType.BROKER, "1")
SET, DELETE, APPEND, SUBTRACT = Operation


def image_with(**configs: str) -> MetadataImage:
    return with_topic(
        cluster(), "a", configs={name.replace("_", "."): text for name, text in configs.items()}
    )


def alter(
    image: MetadataImage, resource: ConfigResource, *alterations: tuple[str, int, str | None]
) -> tuple[MetadataImage, ConfigOutcome]:
    request = ResourceAlteration(resource, [Alteration(*each) for each in alterations])
    records, (outcome,) = alter_configs(image, [request])
    return apply(image, records)[0], outcome


def test_setting_and_deleting_touch_what_they_name() -> None:
    image = image_with(retention_ms="1", segment_ms="2", flush="os")
    image, outcome = alter(image, TOPIC, ("retention.ms", SET, "9"), ("segment.ms", DELETE, None))
    assert outcome.error is None
    assert image.configs(*TOPIC) == {"retention.ms": "9", "flush": "os"}


def test_deleting_what_is_not_set_is_fine() -> None:
    image = image_with()
    records, (outcome,) = alter_configs(
        image, [ResourceAlteration(TOPIC, [Alteration("retention.ms", DELETE, None)])]
    )
    assert (records, outcome.error) == ([], None)


def test_lists_grow_from_their_default_and_shrink() -> None:
    image, outcome = alter(image_with(), TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert outcome.error is None
    assert image.configs(*TOPIC) == {"cleanup.policy": "delete,compact"}
    again, _ = alter(image, TOPIC, ("cleanup.policy", APPEND, "compact"))
    assert again.configs(*TOPIC) == {"cleanup.policy": "delete,compact"}
    image, _ = alter(image, TOPIC, ("cleanup.policy", SUBTRACT, "delete"))
    assert image.configs(*TOPIC) == {"cleanup.policy": "compact"}


def test_replacing_resets_what_is_not_named() -> None:
    image = image_with(retention_ms="1", segment_ms="2")
    request = ResourceAlteration(TOPIC, [Alteration("flush", SET, "os")])
    records, _ = replace_configs(image, [request])
    assert apply(image, records)[0].configs(*TOPIC) == {"flush": "os"}


@pytest.mark.parametrize(
    ("alteration", "code", "words"),
    [
        (("retention.ms", SET, "x"), ErrorCode.invalid_config, "Not a number of type LONG"),
        (("no.such", SET, "x"), ErrorCode.invalid_config, "Unknown topic config name: no.such"),
        (("retention.ms", SET, None), ErrorCode.invalid_request, "Null value not supported"),
        (("retention.ms", APPEND, "1"), ErrorCode.invalid_config, "its type is not LIST"),
        (("no.such", SUBTRACT, "1"), ErrorCode.invalid_config, "its type is not LIST"),
        (("cleanup.policy", APPEND, "shred"), ErrorCode.invalid_config, "must be one of"),
        (("retention.ms", 9, "1"), ErrorCode.invalid_request, "Unknown operation 9"),
    ],
)
def test_a_refused_alteration_changes_nothing(
    alteration: tuple[str, int, str | None], code: ErrorCode, words: str
) -> None:
    image = image_with(segment_ms="5")
    after, outcome = alter(image, TOPIC, ("segment.ms", SET, "6"), alteration)
    assert outcome.error is not None
    assert outcome.error.code is code
    assert words in (outcome.error.message or "")
    assert after.configs(*TOPIC) == {"segment.ms": "5"}


def test_a_config_named_twice_is_refused() -> None:
    _, outcome = alter(image_with(), TOPIC, ("flush", SET, "os"), ("flush", DELETE, None))
    assert outcome.error is not None
    assert outcome.error.code is ErrorCode.invalid_request


def test_a_resource_named_twice_is_refused_and_others_go_on() -> None:
    image = with_topic(image_with(), "b", topic_id=2)
    requests = [
        ResourceAlteration(resource, [Alteration("flush", SET, "os")])
        for resource in (TOPIC, TOPIC, ConfigResource(ResourceType.TOPIC, "b"))
    ]
    records, outcomes = alter_configs(image, requests)
    assert [outcome.error is None for outcome in outcomes] == [False, True]
    assert len(records) == 1


@pytest.mark.parametrize(
    ("resource", "code"),
    [
        (ConfigResource(ResourceType.TOPIC, "missing"), ErrorCode.unknown_topic_or_partition),
        (ConfigResource(ResourceType.BROKER, "7"), ErrorCode.invalid_request),
        (ConfigResource(8, "1"), ErrorCode.invalid_request),
    ],
)
def test_resources_that_are_not_there(resource: ConfigResource, code: ErrorCode) -> None:
    _, outcome = alter(image_with(), resource, ("flush", SET, "os"))
    assert outcome.error is not None
    assert outcome.error.code is code


@pytest.mark.parametrize("name", ["1", ""])
def test_defaults_of_topics_are_set_on_brokers(name: str) -> None:
    resource = ConfigResource(ResourceType.BROKER, name)
    image, outcome = alter(image_with(), resource, ("log.retention.ms", SET, "5"))
    assert outcome.error is None
    assert image.configs(*resource) == {"log.retention.ms": "5"}


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("log.retention.ms", "x", ErrorCode.invalid_config, "type LONG"),
        ("node.id", "5", ErrorCode.invalid_request, "node.id cannot be changed while the node runs"),
        ("no.such", "5", ErrorCode.invalid_request, "Unknown broker config name: no.such"),
    ],
)
def test_broker_configs_that_are_refused(name: str, text: str, code: ErrorCode, words: str) -> None:
    _, outcome = alter(image_with(), BROKER, (name, SET, text))
    assert outcome.error is not None
    assert outcome.error.code is code
    assert words in (outcome.error.message or "")


def test_an_internal_topic_stays_compacted() -> None:
    image = with_topic(cluster(), "__consumer_offsets", configs={"cleanup.policy": "compact"})
    resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets")
    _, outcome = alter(image, resource, ("cleanup.policy", SET, "delete"))
    assert outcome.error is not None
    _, outcome = alter(image, resource, ("cleanup.policy", DELETE, None))
    assert outcome.error is not None
    _, outcome = alter(image, resource, ("segment.bytes", SET, "1000000"))
    assert outcome.error is None
