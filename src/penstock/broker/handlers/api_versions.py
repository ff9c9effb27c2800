"""ApiVersions (18), versions 0–4: what this broker serves.

Answered from the registry alone. A version that is not served is answered with UNSUPPORTED_VERSION in the
shape of version 0, which every client can read; the router does that, see `unsupported_version_body`.
Features are not advertised: a finalized `transaction.version` would switch clients to a protocol that is
not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.types import ErrorCode
from penstock.wire.registry import Registry, api

if TYPE_CHECKING:
    from kio.schema.api_versions.v4.request import ApiVersionsRequest

    from penstock.broker.context import RequestContext
    from penstock.wire.shapes import Body


@api(18, 0, 4)
def api_versions(request: ApiVersionsRequest, context: RequestContext) -> Body:
    context.connection.client_software = request.client_software_name
    return body(context.broker.registry, ErrorCode.none)


def body(registry: Registry, error_code: ErrorCode) -> Body:
    return {
        "error_code": error_code,
        "api_keys": [
            {"api_key": key, "min_version": first, "max_version": last}
            for key, first, last in registry.advertised()
        ],
    }
