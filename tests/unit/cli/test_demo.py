from __future__ import annotations

import threading
from typing import Any, NoReturn

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.cli import demo
from penstock.cli.output import CommandFailed


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaException(KafkaError(KafkaError._FAIL, "no luck")), CommandFailed),
        (CommandFailed("no luck"), CommandFailed),
        (ZeroDivisionError("no luck"), ZeroDivisionError),
    ],
)
def test_whatever_stops_a_member_stops_the_demo(
    error: Exception, expected: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_settings: dict[str, Any]) -> NoReturn:
        raise error

    monkeypatch.setattr(demo, "Consumer", fail)
    progress = demo.Progress()
    demo.run_member("127.0.0.1:1", "member-1", progress, threading.Event())
    with pytest.raises(expected, match="no luck"):
        demo.wait_for_members(progress)
