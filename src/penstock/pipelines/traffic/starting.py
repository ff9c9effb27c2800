"""How Spark is started for the heat map. Nothing of Spark is imported here: Java is on its way first."""

from __future__ import annotations

from typing import Final

from penstock.spark.application import Application
from penstock.spark.small_batches import small_batches
from penstock.spark.worker_daemon import MODULE


def config(master: str | None) -> dict[str, str]:
    """Spark for many small batches, one task each."""
    return small_batches(master) | {
        "spark.sql.shuffle.partitions": "1",  # there is one group
        # The state is written as a whole with each batch.
        "spark.sql.streaming.stateStore.maintenanceInterval": "15s",
        "spark.python.daemon.module": MODULE,
    }


HEATMAP: Final = Application("penstock traffic", config)
