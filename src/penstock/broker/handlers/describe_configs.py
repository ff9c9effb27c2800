"""DescribeConfigs (32), versions 1–4: configs of topics and of this broker, with where each value comes from.

A broker is named by its number; the empty name stands for what was set at runtime for all brokers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.broker.answers import error_fields
from penstock.metadata.broker_configs import describe_broker, describe_cluster_default
from penstock.metadata.config_layers import CLUSTER_DEFAULT
from penstock.metadata.image import ResourceType
from penstock.metadata.internal_topics import is_coordinators
from penstock.types import ApiError, ErrorCode
from penstock.wire.registry import api

if TYPE_CHECKING:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

    from penstock.broker.broker import Broker
    from penstock.broker.context import RequestContext
    from penstock.metadata.config_layers import ConfigEntry
    from penstock.wire.shapes import Body


@api(32, 1, 4)
def describe_configs(request: DescribeConfigsRequest, context: RequestContext) -> Body:
    return {"results": [_describe(resource, request, context.broker) for resource in request.resources]}


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, broker: Broker
) -> dict[str, Any]:
    error = None
    entries: list[ConfigEntry] = []
    try:
        entries = _entries(resource, broker)
    except ApiError as refusal:
        error = refusal
    wanted = set(resource.configuration_keys or ())
    return {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        **error_fields(error),
        "configs": [_answer(entry, request) for entry in entries if not wanted or entry.name in wanted],
    }


def _entries(resource: DescribeConfigsResource, broker: Broker) -> list[ConfigEntry]:
    controller = broker.controller
    image, name, resource_type = controller.image, resource.resource_name, int(resource.resource_type)
    if resource_type == ResourceType.TOPIC:
        topic = image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist.")
        return controller.layers.describe_topic(
            image,
            image.configs(ResourceType.TOPIC, name),
            replication_factor=topic.replication_factor,
            internal=is_coordinators(name),
        )
    if resource_type == ResourceType.BROKER:
        if name == CLUSTER_DEFAULT:
            return describe_cluster_default(image)
        if name == str(broker.config.node_id):
            config = replace(broker.config, port=broker.port)  # the one that the system chose for port 0
            return describe_broker(image, controller.layers, config)
        raise ApiError(
            ErrorCode.invalid_request,
            f"Unexpected broker id, expected {broker.config.node_id} or empty string, but received {name}",
        )
    raise ApiError(ErrorCode.invalid_request, f"Configs of resource type {resource_type} are not served.")


def _answer(entry: ConfigEntry, request: DescribeConfigsRequest) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": False,
        "synonyms": [synonym._asdict() for synonym in entry.synonyms] if request.include_synonyms else (),
        "config_type": entry.key.type,
        "documentation": entry.key.doc if request.include_documentation else None,
    }
