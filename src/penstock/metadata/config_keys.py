"""One config: its name, type, default and what values it takes; how its text becomes a value.

Configs travel and are stored as text, as in Kafka. Messages are worded as Kafka words them, since tools and
people look for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from penstock.types import ApiError, ErrorCode

ConfigValue = int | float | bool | str | tuple[str, ...]
Check = Callable[[ConfigValue], str | None]
"""Says what is wrong with a value, or None."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """As numbered in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a value comes from, as numbered in DescribeConfigs; the lower, the stronger."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: str
    doc: str
    check: Check | None = None
    broker_name: str | None = None
    """Under this name a broker config gives the default of a topic config."""

    def parse(self, text: str) -> ConfigValue:
        """The typed value; ApiError INVALID_CONFIG says what is wrong with the text."""
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError as error:
            raise self.refusal(text, str(error)) from None
        problem = self.check(value) if self.check is not None else None
        if problem is not None:
            raise self.refusal(text, problem)
        return value

    def refusal(self, text: str, reason: str) -> ApiError:
        return ApiError(
            ErrorCode.invalid_config, f"Invalid value {text[:200]} for configuration {self.name}: {reason}"
        )


def _parse_boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return lowered == "true"


def _integer_parser(name: str, bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", text) or not -limit <= int(text) < limit:
            raise ValueError(f"Not a number of type {name}")
        return int(text)

    return parse


def _parse_double(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def parse_list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text.strip() else ()


_PARSERS: dict[ConfigType, Callable[[str], ConfigValue]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer_parser("INT", 32),
    ConfigType.SHORT: _integer_parser("SHORT", 16),
    ConfigType.LONG: _integer_parser("LONG", 64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: parse_list,
}


def at_least(lowest: float) -> Check:
    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, int | float)
        return None if value >= lowest else f"Value must be at least {lowest}"

    return check


def between(lowest: float, highest: float) -> Check:
    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, int | float)
        if value < lowest:
            return f"Value must be at least {lowest}"
        # Written so that a NaN is refused too.
        return None if value <= highest else f"Value must be no more than {highest}"

    return check


def one_of(*allowed: str) -> Check:
    def check(value: ConfigValue) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def some_of(*allowed: str) -> Check:
    def check(value: ConfigValue) -> str | None:
        assert isinstance(value, tuple)
        if any(item not in allowed for item in value):
            return f"String must be one of: {', '.join(allowed)}"
        if len(set(value)) != len(value):
            return "the list has duplicates"
        return None

    return check


def throttled_replicas(value: ConfigValue) -> str | None:
    """`*`, nothing, or partition:broker pairs."""
    assert isinstance(value, tuple)
    if value == ("*",) or _all_match(value, r"[0-9]+:[0-9]+"):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format:"
        " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _all_match(items: Sequence[str], pattern: str) -> bool:
    return all(re.fullmatch(pattern, item) for item in items)
