"""IncrementalAlterConfigs (44), versions 0–1: set, delete, append to or subtract from single configs.

Topics have all the configs of `metadata.configs`; a broker those that are defaults of topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import altered_configs
from penstock.metadata.alterations import Alteration, ResourceAlteration
from penstock.metadata.image import ConfigResource
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.schema.incremental_alter_configs.v1.request import IncrementalAlterConfigsRequest

    from penstock.broker.context import RequestContext
    from penstock.metadata.alterations import ConfigOutcome
    from penstock.wire.shapes import Body


@api(44, 0, 1, forwarded=True)
async def incremental_alter_configs(request: IncrementalAlterConfigsRequest, context: RequestContext) -> Body:
    wanted = [
        ResourceAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            [Alteration(each.name, each.config_operation, each.value) for each in resource.configs],
        )
        for resource in request.resources
    ]

    async def change() -> Sequence[ConfigOutcome]:
        return await context.controller.incremental_alter_configs(wanted, validate_only=request.validate_only)

    return await altered_configs(wanted, change())
