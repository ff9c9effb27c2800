"""What the data source says when it cannot go on: one line that names the option, topic or partition."""

from __future__ import annotations


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
