from __future__ import annotations

import pytest

from penstock.demo.browser import has_display


@pytest.mark.parametrize(
    ("environment", "platform", "expected"),
    [
        ({}, "linux", False),
        ({"DISPLAY": ""}, "linux", False),
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({"BROWSER": "wslview"}, "linux", True),
        ({}, "darwin", True),
    ],
)
def test_a_browser_is_opened_where_there_is_a_screen(
    environment: dict[str, str], platform: str, expected: bool
) -> None:
    assert has_display(environment, platform) is expected
