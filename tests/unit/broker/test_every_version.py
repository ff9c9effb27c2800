"""Every API in every served version: a request of defaults gets an answer that its schema can read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.broker.handlers import load_handlers
from tests.unit.broker.in_process import InProcess, with_broker

if TYPE_CHECKING:
    from penstock.wire.registry import Handler

BEYOND_DEFAULTS: dict[int, dict[str, object]] = {
    0: {"acks": -1}
}  # a produce request of defaults has no answer
HANDLERS = sorted(load_handlers(), key=lambda handler: handler.key)


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.function.__name__)
def test_a_request_of_defaults_is_answered(handler: Handler) -> None:
    async def work(broker: InProcess) -> None:
        for version in handler.versions:
            await broker.ask(handler.key, version, BEYOND_DEFAULTS.get(handler.key, {}))

    with_broker(work)
