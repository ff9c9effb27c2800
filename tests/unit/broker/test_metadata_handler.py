"""Metadata, as a client in trouble needs it."""

from __future__ import annotations

from penstock.metadata.records import FenceBrokerRecord
from tests.unit.broker.in_process import InProcess, with_broker

METADATA = 3


def test_a_client_is_never_told_of_no_broker_at_all() -> None:
    """librdkafka forgets the brokers that are not named, and with an empty list all that it could ask."""

    async def work(client: InProcess) -> None:
        controller = client.broker.controller
        epoch = controller.image.brokers[1].epoch
        await controller.active.change(lambda _: ([FenceBrokerRecord(1, epoch)], None))
        assert controller.image.live_brokers() == []
        answer = await client.ask(METADATA, 12, {"topics": []})
        assert [each.node_id for each in answer.brokers] == [1]

    with_broker(work)
