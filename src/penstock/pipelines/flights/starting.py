"""How Spark is started for Flights. Nothing of Spark is imported here: Java is on its way before that."""

from __future__ import annotations

from typing import Final

from penstock.spark.application import Application
from penstock.spark.defaults import BRIEF, defaults
from penstock.spark.small_batches import small_batches
from penstock.spark.worker_daemon import MODULE

DAEMON: Final = {"spark.python.daemon.module": MODULE}


def one_job(master: str | None) -> dict[str, str]:
    """Spark for some seconds."""
    options = defaults(master)["spark.driver.extraJavaOptions"]
    return {"spark.driver.extraJavaOptions": f"{options} {BRIEF}"} | DAEMON


def service(master: str | None) -> dict[str, str]:
    return small_batches(master) | DAEMON


JOB: Final = Application("penstock flights", one_job)
SERVICE: Final = Application("penstock flights service", service)
