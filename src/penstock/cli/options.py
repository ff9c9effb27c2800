"""Options that several commands share."""

import re
from typing import Annotated

import typer

from penstock.cli.output import WrongUsage

BOOTSTRAP = "127.0.0.1:9092"
OFFSET_MAX = 2**63 - 1
HTTP = "http://127.0.0.1:8080"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        envvar="PENSTOCK_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="Where a broker listens, Penstock's or Kafka's.",
    ),
]
Http = Annotated[
    str,
    typer.Option("--http", envvar="PENSTOCK_HTTP", metavar="URL", help="Where the admin endpoint listens."),
]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


def split_partition(wanted: str) -> tuple[str, int | None]:
    """`TOPIC` or `TOPIC:PARTITION`; no name of a topic has a colon."""
    check_text(wanted)
    topic, colon, number = wanted.partition(":")
    if not topic or (colon and not re.fullmatch("[0-9]{1,10}", number)):
        raise WrongUsage(f"{wanted!r} is not of the form TOPIC or TOPIC:PARTITION")
    return topic, int(number) if number else None


def is_offset(text: str) -> bool:
    return re.fullmatch("[0-9]{1,19}", text) is not None and int(text) <= OFFSET_MAX


def check_name(value: str | None) -> str | None:
    """A name that librdkafka can take: some of its calls do not survive others."""
    if value == "":
        raise typer.BadParameter("it must not be empty")
    if value is not None:
        check_text(value)
    return value


def check_names(values: list[str]) -> list[str]:
    for value in values:
        check_name(value)
    return values


def check_text(value: str) -> None:
    """Arguments that are not UTF-8 arrive with lone surrogates in them."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{value!a} is not UTF-8") from None


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """`["a=1", "b="]` as `{"a": "1", "b": ""}`."""
    settings = {}
    for pair in pairs or []:
        check_text(pair)
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r} is not of the form NAME=VALUE")
        settings[name] = value
    return settings
