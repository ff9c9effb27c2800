from __future__ import annotations

from datetime import UTC, datetime

import pytest
import typer

from penstock.cli.groups import parse_target


def test_targets() -> None:
    assert parse_target("beginning") == "beginning"
    assert parse_target("end") == "end"
    assert parse_target("42") == 42
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert parse_target("2026-03-01T12:00:00Z") == noon
    assert parse_target("2026-03-01 12:00") == noon
    assert parse_target("2026-03-01T13:00:00+01:00") == noon


@pytest.mark.parametrize("text", ["", "-1", "start", "2026-13-01"])
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_target(text)
