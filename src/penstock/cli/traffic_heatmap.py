"""`penstock traffic heatmap`: the heat map job on Spark."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from penstock.cli.options import BOOTSTRAP, Bootstrap
from penstock.cli.output import CommandFailed
from penstock.pipelines.stop import Stop, new_stop

WINDOW_S_MAX = 3_600
WATERMARK_S_MAX = 86_400


class Connector(StrEnum):
    penstock = "penstock"
    kafka = "kafka"


class Starting(StrEnum):
    earliest = "earliest"
    latest = "latest"


def register(group: typer.Typer) -> None:
    group.command()(heatmap)


def heatmap(
    bootstrap: Bootstrap = BOOTSTRAP,
    master: Annotated[
        str | None, typer.Option(metavar="M", help="Spark's master; all cores of this machine if not given.")
    ] = None,
    checkpoint: Annotated[
        str, typer.Option(metavar="DIR", help="Where the job's state is kept, to go on from it.")
    ] = "./penstock-traffic",
    window: Annotated[
        int, typer.Option(min=1, max=WINDOW_S_MAX, metavar="S", help="Length of a window, in seconds.")
    ] = 5,
    watermark: Annotated[
        int,
        typer.Option(
            min=0, max=WATERMARK_S_MAX, metavar="S", help="How late a position may come, in seconds."
        ),
    ] = 10,
    connector: Annotated[
        Connector, typer.Option(help="Penstock's own source, or Spark's Kafka connector.")
    ] = Connector.penstock,
    starting: Annotated[
        Starting, typer.Option(help="Where a job without a checkpoint begins.")
    ] = Starting.earliest,
) -> None:
    """Count positions by cell and window, and write what changes to the topic traffic.heatmap."""
    from penstock.pipelines.claim import FolderError
    from penstock.pipelines.traffic.starting import HEATMAP
    from penstock.spark import launch
    from penstock.spark.java import SparkSetupError

    try:
        with stopped_by_signals() as stop, HEATMAP.started(master) as java:  # and meanwhile
            try:
                from penstock.pipelines.traffic import job
            except ImportError as error:
                raise CommandFailed(f"needs pip install 'penstock[spark]' ({error})") from error
            from penstock.client.errors import PenstockError

            settings = job.Settings(
                bootstrap, checkpoint, window * 1_000, watermark * 1_000, connector.value, starting.value
            )
            try:
                job.run(settings, master, stop, lambda line: print(line, flush=True), java)
            except (job.JobError, PenstockError) as error:
                raise CommandFailed(str(error)) from error
    except (FolderError, SparkSetupError) as error:
        raise CommandFailed(str(error)) from error
    if java is not None:
        launch.make_archive()


@contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Set by SIGINT and SIGTERM.

    Nothing is raised: an exception in the middle of a call to Java would leave the connection unusable, and
    with it the query could not be stopped.
    """
    with new_stop() as stop:
        if threading.current_thread() is not threading.main_thread():
            yield stop
            return
        before = {
            number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield stop
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
