"""The three clients of a gateway: one writes, one manages, one reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.gateway.kafka.admin import KafkaAdmin
from penstock.gateway.kafka.librdkafka import client_config
from penstock.gateway.kafka.producer import KafkaProducer
from penstock.gateway.kafka.reader import LogReader
from penstock.gateway.kafka.reader_limits import ReaderLimits

if TYPE_CHECKING:
    from penstock.gateway.settings import GatewaySettings


class Kafka:
    """None of them needs a broker to start: requests wait for one, each up to its limit."""

    def __init__(self, settings: GatewaySettings) -> None:
        limits = settings.limits
        config = client_config(settings.bootstrap, settings.rack)
        self.producer = KafkaProducer(
            config,
            queue_bytes_max=limits.producer_queue_bytes_max,
            delivery_seconds_max=limits.kafka_seconds_max,
        )
        self.admin = KafkaAdmin(config, seconds_max=limits.kafka_seconds_max)
        self.reader = LogReader(
            settings.bootstrap,
            rack=settings.rack,
            limits=ReaderLimits(unavailable_s_max=limits.kafka_seconds_max),
        )

    async def start(self) -> None:
        self.producer.start()
        self.admin.start()
        await self.reader.start()

    async def close(self) -> None:
        await self.producer.close()
        await self.reader.close()
        self.admin.close()
