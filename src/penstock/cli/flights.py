"""`penstock flights`: generate a table of itineraries, and answer the four queries about one."""

import csv
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli import flights_jobs, flights_serve
from penstock.cli.flights_jobs import FASTEST_OF_OPTION, FastestOfOption
from penstock.cli.output import CommandFailed, counted, errors_on_terminal, print_json

if TYPE_CHECKING:
    from rich.progress import Progress

    from penstock.pipelines.flights.output import Summary
    from penstock.pipelines.flights.progress import Step

SHOWN_ROWS = 5
PLAIN_ROWS_PER_LINE = 1_000_000
TITLES = {
    "q1": "three or more stopovers",
    "q2": "more than four times the direct distance",
    "q3": "the two fastest of each route with three or more stopovers",
    "q4": "fares above the general average",
}

flights = typer.Typer(name="flights", help="The Flights optimizer on Spark.", no_args_is_help=True)
flights_jobs.register(flights)
flights_serve.register(flights)

Out = Annotated[str, typer.Option("--out", metavar="DIR", help="The folder to write to.")]


def register(app: typer.Typer) -> None:
    app.add_typer(flights)


@flights.command()
def generate(
    out: Out,
    rows: Annotated[int, typer.Option(min=1, metavar="N", help="Number of itineraries.")],
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = 0,
) -> None:
    """Write itineraries.csv and airports.csv of the real schema."""
    from penstock.pipelines.flights.generate import generate as write_tables

    with progress_bar() as bar:
        if bar is None:
            said = 0

            def show(written: int) -> None:
                nonlocal said
                if written // PLAIN_ROWS_PER_LINE > said:
                    said = written // PLAIN_ROWS_PER_LINE
                    print(f"{written:,} of {counted(rows, 'row')}", file=sys.stderr)
        else:
            task = bar.add_task("rows", total=rows)

            def show(written: int) -> None:
                bar.update(task, completed=written)

        write_tables(rows, out, seed=seed, progress=show)
    print(f"wrote {counted(rows, 'row')} of itineraries, and the airports, to {out}")


@flights.command()
def run(
    itineraries: Annotated[
        str, typer.Option(metavar="F", help="The itineraries, a path that Spark can read.")
    ],
    airports: Annotated[str, typer.Option(metavar="F", help="The airports, likewise.")],
    out: Out,
    master: Annotated[
        str | None, typer.Option(metavar="M", help="Spark's master; all cores of this machine if not given.")
    ] = None,
    fastest_of: Annotated[FastestOfOption, FASTEST_OF_OPTION] = FastestOfOption.many_stopovers,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Answer the four queries in one Spark batch; no broker is needed."""
    from penstock.pipelines.flights import starting
    from penstock.pipelines.flights.header import CsvError
    from penstock.pipelines.flights.output import OutputError
    from penstock.spark import launch
    from penstock.spark.java import SparkSetupError

    try:
        with starting.JOB.started(master) as java:  # and meanwhile
            try:
                from penstock.pipelines.flights import job
            except ImportError as error:
                raise CommandFailed(f"needs pip install 'penstock[spark]' ({error})") from error
            try:
                with ended_by_sigterm(), progress_bar() as bar:
                    summary = job.run(
                        itineraries,
                        airports,
                        out,
                        master,
                        fastest_of=fastest_of.value,
                        progress=shown_progress(bar),
                        java=java,
                    )
            except job.JobError as error:
                raise CommandFailed(str(error)) from error
    except (CsvError, OutputError, SparkSetupError) as error:
        raise CommandFailed(str(error)) from error
    if java is not None:
        launch.make_archive()
    if json:
        from dataclasses import asdict

        print_json(asdict(summary))
    else:
        show_results(out, summary)


@contextmanager
def progress_bar() -> "Iterator[Progress | None]":
    """A bar on a terminal; None where plain lines are wanted."""
    if not errors_on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


def shown_progress(bar: "Progress | None") -> Any:
    """What the job calls as it goes on: stages of Spark, with their tasks."""
    if bar is None:
        shown: set[int] = set()

        def say(step: "Step") -> None:
            if step.stage not in shown:
                shown.add(step.stage)
                print(f"stage {step.stage}: {counted(step.tasks, 'task')}", file=sys.stderr)

        return say
    task = bar.add_task("starting Spark", total=None)

    def move(step: "Step") -> None:
        bar.update(task, description=f"stage {step.stage}", completed=step.done, total=step.tasks)

    return move


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """SIGTERM cleans up as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    # Without a handler, Py4J's complaint about the interrupted call would be a stack trace on stderr.
    logging.getLogger().addHandler(logging.NullHandler())
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def show_results(out: str, summary: "Summary") -> None:
    from rich.console import Console
    from rich.table import Table

    from penstock.cli.flights_results import summary_lines

    console = Console(highlight=False)
    for query, title in TITLES.items():
        table = Table(
            title=f"{query}: {title}, {counted(summary.queries[query], 'row')}", title_justify="left"
        )
        with open(os.path.join(out, f"{query}.csv"), encoding="utf-8", newline="") as file:
            lines = csv.reader(file, quoting=csv.QUOTE_NONE)
            for column in next(lines):
                table.add_column(column, overflow="fold")
            for fields, _ in zip(lines, range(SHOWN_ROWS), strict=False):
                table.add_row(*fields)
        console.print(table)
    for line in summary_lines(summary):
        print(line)
    print(f"results in {out}, {summary.seconds:.1f} s")
