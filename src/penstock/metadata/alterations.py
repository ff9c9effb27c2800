"""Decisions about configs: what a request to alter them leads to.

A resource is altered as a whole or not at all. `replace_configs` is AlterConfigs: what it does not name goes
back to its default. `alter_configs` is IncrementalAlterConfigs: it touches what it names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from penstock.metadata.broker_configs import BROKER_CONFIGS
from penstock.metadata.config_keys import ConfigKey, ConfigType, parse_list
from penstock.metadata.config_layers import CLUSTER_DEFAULT
from penstock.metadata.configs import (
    TOPIC_CONFIG_BY_BROKER_NAME,
    TOPIC_CONFIGS,
    check_topic_configs,
)
from penstock.metadata.image import ConfigResource, MetadataImage, ResourceType
from penstock.metadata.internal_topics import is_coordinators
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.types import ApiError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Alteration:
    name: str
    operation: int
    value: str | None


@dataclass(frozen=True, slots=True)
class ResourceAlteration:
    resource: ConfigResource
    alterations: Sequence[Alteration]


@dataclass(frozen=True, slots=True)
class ConfigOutcome:
    resource: ConfigResource
    error: ApiError | None = None


Decision = tuple[list[MetadataRecord], list[ConfigOutcome]]


def replace_configs(image: MetadataImage, requests: Sequence[ResourceAlteration]) -> Decision:
    return _decide(image, requests, keep_others=False)


def alter_configs(image: MetadataImage, requests: Sequence[ResourceAlteration]) -> Decision:
    return _decide(image, requests, keep_others=True)


def _decide(image: MetadataImage, requests: Sequence[ResourceAlteration], *, keep_others: bool) -> Decision:
    asked = Counter(request.resource for request in requests)
    records: list[MetadataRecord] = []
    outcomes = []
    for resource, request in {request.resource: request for request in requests}.items():
        try:
            if asked[resource] > 1:
                raise ApiError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            keys = _keys_of(image, resource)
            before = image.configs(resource.resource_type, resource.name)
            after = _altered(before if keep_others else {}, request.alterations, keys)
            _check(resource, after)
        except ApiError as error:
            outcomes.append(ConfigOutcome(resource, error))
            continue
        records += _difference(resource, before, after)
        outcomes.append(ConfigOutcome(resource))
    return records, outcomes


def _keys_of(image: MetadataImage, resource: ConfigResource) -> Mapping[str, ConfigKey]:
    """The configs that a resource has and that may be set at runtime."""
    if resource.resource_type == ResourceType.TOPIC:
        if resource.name not in image.topics:
            raise ApiError(
                ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist."
            )
        return TOPIC_CONFIGS
    if resource.resource_type == ResourceType.BROKER:
        check_broker(image, resource.name)
        return TOPIC_CONFIG_BY_BROKER_NAME
    raise ApiError(
        ErrorCode.invalid_request, f"Configs of resource type {resource.resource_type} are not served."
    )


def check_broker(image: MetadataImage, name: str) -> None:
    if name != CLUSTER_DEFAULT and name not in map(str, image.brokers):
        raise ApiError(ErrorCode.invalid_request, f"No broker {name[:50]!r} is registered.")


def _altered(
    before: Mapping[str, str], alterations: Sequence[Alteration], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    names = [alteration.name for alteration in alterations]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    after = dict(before)
    for alteration in alterations:
        name, operation, value = alteration.name, alteration.operation, alteration.value
        if operation == Operation.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise ApiError(ErrorCode.invalid_request, f"Null value not supported for : {name[:200]}")
        if operation == Operation.SET:
            after[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            after[name] = _altered_list(after, name, Operation(operation), value, keys)
        else:
            raise ApiError(ErrorCode.invalid_request, f"Unknown operation {operation} on config {name[:200]}")
    return after


def _altered_list(
    values: Mapping[str, str], name: str, operation: Operation, value: str, keys: Mapping[str, ConfigKey]
) -> str:
    key = keys.get(name)
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(
            ErrorCode.invalid_config,
            f"Can't {operation.name} to key {name[:200]} because its type is not LIST.",
        )
    items = list(parse_list(values.get(name, key.default)))
    for item in parse_list(value):
        if operation is Operation.APPEND and item not in items:
            items.append(item)
        elif operation is Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check(resource: ConfigResource, after: Mapping[str, str]) -> None:
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_configs(after)
        if is_coordinators(resource.name) and after.get("cleanup.policy") != "compact":
            raise ApiError(
                ErrorCode.invalid_config, f"{resource.name} is internal: its cleanup.policy stays compact."
            )
        return
    for name, text in after.items():
        key = TOPIC_CONFIG_BY_BROKER_NAME.get(name)
        if key is not None:
            key.parse(text)
        elif name in BROKER_CONFIGS:
            raise ApiError(
                ErrorCode.invalid_request,
                f"{name} cannot be changed while the node runs; it is set in the node's configuration.",
            )
        else:
            raise ApiError(ErrorCode.invalid_request, f"Unknown broker config name: {name[:200]}")


def _difference(
    resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
) -> list[MetadataRecord]:
    gone: list[MetadataRecord] = [ConfigRecord(*resource, name) for name in before if name not in after]
    return gone + [
        ConfigRecord(*resource, name, text) for name, text in after.items() if before.get(name) != text
    ]
