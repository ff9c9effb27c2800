"""The bars and aims: what each ratio, Penstock divided by the peer, is held to."""

from __future__ import annotations

from typing import Final

from bench.stats import Target

PRODUCE_VS_SINK: Final = Target(0.7, 0.9)
PRODUCE_VS_KAFKA: Final = Target(1, 1.5)
PRODUCE_COMMIT_VS_KAFKA: Final = Target(2, 5)
CONSUME_VS_KAFKA: Final = Target(1, 1.5)
TRANSACTIONS_VS_NONE: Final = Target(0.5, 0.8)
REPLICATED_VS_KAFKA: Final = Target(1, 1.5)
FAILOVER_VS_KAFKA: Final = Target(1 / 3, 1 / 10, at_least=False)
BACK_VS_LIMIT: Final = Target(1, 2 / 3, at_least=False)
LATENCY_VS_KAFKA: Final = Target(1, 0.5, at_least=False)
FOOTPRINT_VS_KAFKA: Final = Target(0.2, 0.1, at_least=False)
CPU_VS_SINK: Final = Target(2.5, 1.5, at_least=False)
PUBLISH_VS: Final = {"redis": Target(4, 6), "nats": Target(10, 20), "rabbitmq": Target(20, 45)}
CONSUME_VS: Final = {"redis": Target(1.5, 2), "nats": Target(5, 10), "rabbitmq": Target(10, 25)}
FLIGHTS_VS_DUCKDB: Final = Target(2.5, 1.5, at_least=False)
FLIGHTS_VS_PLAIN_SPARK: Final = Target(2, 3)
FLIGHTS_COLD_VS_PLAIN_SPARK: Final = Target(0.7, 0.5, at_least=False)
FLIGHTS_SERVICE_VS_DUCKDB: Final = Target(8, 4, at_least=False)
EIGHT_JOBS_VS_ONE: Final = Target(1.3, 1, at_least=False)
SCAN_VS_CONNECTOR: Final = Target(0.7, 1)
POSTGRES_VS_COPY: Final = Target(0.5, 1)
HTTP_FILES_VS_PLAIN: Final = Target(10, 15)
HTTP_POSTGRES_VS_PLAIN: Final = Target(5, 10)
WEBSOCKET_VS_LIMIT: Final = Target(1, 0.1, at_least=False)
MAP_VS_LIMIT: Final = Target(1, 0.5, at_least=False)
NEAR_FLAT: Final = Target(0.8, 0.8)
CPU_VS_BEFORE: Final = Target(1.1, 1, at_least=False)
NEAR_FLAT_COST: Final = Target(1.2, 1.2, at_least=False)
