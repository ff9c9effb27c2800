"""What the data source says when it cannot go on: one line that names the option, topic or partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class SourceError(Exception):
    """Reading or writing cannot go on."""


class OptionError(SourceError):
    """An option is unknown, missing, or has a value that makes no sense."""

    def __init__(self, option: str, problem: str) -> None:
        super().__init__(f"option {option!r}: {problem}")


class DataLossError(SourceError):
    """Offsets that were to be read are gone."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} (to go on with what is there, set failOnDataLoss to false)")


class NotWrittenError(SourceError):
    """A message is not in its topic; `error` is what the client or the broker said."""

    def __init__(self, line: str, error: KafkaError) -> None:
        super().__init__(line)
        self.error = error


class SinkFencedError(SourceError):
    """Another query writes under the name of this one now."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"sink {name!r}: another query has taken it over, and this one is fenced off; "
            "two queries must not have the same sinkId or checkpoint"
        )
