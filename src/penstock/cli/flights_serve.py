"""`penstock flights serve`: the long-running service for jobs, and the process that watches over it.

The command itself does little, so that little can happen to it. It starts the driver, the same command with
`--driver`, again whenever that dies, and takes it along when it ends. What ends the driver by its own
decision, as a folder that is in use, ends the command too.
"""

import signal
import subprocess
import sys
import time
import traceback
from typing import Annotated

import typer

from penstock.cli.child import end_with_parent
from penstock.cli.options import BOOTSTRAP, Bootstrap
from penstock.cli.output import CommandFailed
from penstock.cli.traffic_heatmap import stopped_by_signals
from penstock.pipelines.stop import Stop

GIB = 2**30
DIED = 75
"""The driver's exit code when it is to be started again."""
PAUSE_S_MIN = 0.5
PAUSE_S_MAX = 30.0
LONG_S = 60.0
"""A driver that has lived so long is started again without a long pause."""
POLL_S = 0.1
STOP_S_MAX = 60.0


def register(group: typer.Typer) -> None:
    group.command()(serve)


def serve(
    bootstrap: Bootstrap = BOOTSTRAP,
    master: Annotated[
        str | None, typer.Option(metavar="M", help="Spark's master; all cores of this machine if not given.")
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="Where the service keeps what it works on.")
    ] = "./penstock-flights",
    job_bytes: Annotated[int, typer.Option(min=1, metavar="N", help="Bytes that a job may have.")] = 64 * GIB,
    total_bytes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Bytes that all open jobs may have together.")
    ] = 256 * GIB,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Jobs that may be open.")] = 1_000,
    keep: Annotated[
        int, typer.Option(min=0, metavar="S", help="How long data of finished jobs stay, in seconds.")
    ] = 3_600,
    abandon: Annotated[
        int, typer.Option(min=1, metavar="S", help="After so many seconds without a message a job fails.")
    ] = 86_400,
    driver: Annotated[bool, typer.Option("--driver", hidden=True)] = False,
) -> None:
    """Answer the four queries for jobs that are sent to the topics of the Flights service."""
    if not driver:
        options = {
            "--bootstrap": bootstrap,
            "--data": data,
            "--job-bytes": job_bytes,
            "--total-bytes": total_bytes,
            "--jobs": jobs,
            "--keep": keep,
            "--abandon": abandon,
        }
        if master is not None:
            options["--master"] = master
        watch([f"{name}={value}" for name, value in options.items()])
        return
    from penstock.pipelines.claim import FolderError
    from penstock.pipelines.flights.service.ledger import Limits
    from penstock.pipelines.flights.starting import SERVICE
    from penstock.spark import launch
    from penstock.spark.java import SparkSetupError

    limits = Limits(job_bytes, total_bytes, jobs, keep * 1_000, abandon * 1_000)
    try:
        with stopped_by_signals() as stop, SERVICE.started(master) as java:  # and meanwhile
            try:
                from penstock.pipelines.flights.service import job
            except ImportError as error:
                raise CommandFailed(f"needs pip install 'penstock[spark]' ({error})") from error
            try:
                job.run(job.Settings(bootstrap, data, limits), master, stop, say, java)
            except job.JavaDiedError as error:
                print(f"penstock: {error}", file=sys.stderr, flush=True)
                raise typer.Exit(DIED) from error
            except job.ServiceError as error:
                raise CommandFailed(str(error)) from error
    except (CommandFailed, typer.Exit):
        raise
    except (FolderError, SparkSetupError) as error:
        raise CommandFailed(str(error)) from error
    except Exception as error:  # whatever it is, as a full disk: it may be better the next time
        traceback.print_exc()
        raise typer.Exit(DIED) from error
    if java is not None:
        launch.make_archive()


def say(line: str) -> None:
    print(line, flush=True)


def watch(options: list[str]) -> None:
    """Runs drivers until a signal comes, or one has decided to end."""
    command = [sys.executable, "-m", "penstock", "flights", "serve", "--driver", *options]
    pause_s = PAUSE_S_MIN
    with stopped_by_signals() as stop:
        while not stop.is_set():
            began = time.monotonic()
            process = subprocess.Popen(  # noqa: S603 - this interpreter and this package
                command,
                stdin=subprocess.DEVNULL,
                # Ctrl-C on the terminal is for this process, which then stops the driver.
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
            code = ended(process, stop)
            if stop.is_set():
                return
            if code not in (DIED, 0) and code > 0:
                raise typer.Exit(code)  # it has said why
            pause_s = PAUSE_S_MIN if time.monotonic() - began > LONG_S else min(PAUSE_S_MAX, pause_s * 2)
            say(f"the driver ended with {code}, and is started again")
            stop.wait(pause_s)


def ended(process: "subprocess.Popen[bytes]", stop: Stop) -> int:
    """Its exit code, when it has ended or was stopped."""
    while process.poll() is None and not stop.wait(POLL_S):
        pass
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()
