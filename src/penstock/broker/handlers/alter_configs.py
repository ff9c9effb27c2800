"""AlterConfigs (33), versions 0–2: set all configs of a resource; what is not named goes back to its default.

Clients prefer IncrementalAlterConfigs, which does not disturb what it does not name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.answers import altered_configs
from penstock.metadata.alterations import Alteration, Operation, ResourceAlteration
from penstock.metadata.image import ConfigResource
from penstock.wire.registry import api

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kio.schema.alter_configs.v2.request import AlterConfigsRequest

    from penstock.broker.context import RequestContext
    from penstock.metadata.alterations import ConfigOutcome
    from penstock.wire.shapes import Body


@api(33, 0, 2, forwarded=True)
async def alter_configs(request: AlterConfigsRequest, context: RequestContext) -> Body:
    wanted = [
        ResourceAlteration(
            ConfigResource(resource.resource_type, resource.resource_name),
            [Alteration(config.name, Operation.SET, config.value) for config in resource.configs],
        )
        for resource in request.resources
    ]

    async def change() -> Sequence[ConfigOutcome]:
        return await context.controller.alter_configs(wanted, validate_only=request.validate_only)

    return await altered_configs(wanted, change())
