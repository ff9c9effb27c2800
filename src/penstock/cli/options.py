"""Options that several commands share."""

from typing import Annotated

import typer

BOOTSTRAP = "127.0.0.1:9092"
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


def parse_settings(pairs: list[str] | None) -> dict[str, str]:
    """`["a=1", "b="]` as `{"a": "1", "b": ""}`."""
    settings = {}
    for pair in pairs or []:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{pair!r} is not of the form NAME=VALUE")
        settings[name] = value
    return settings
