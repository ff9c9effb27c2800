from __future__ import annotations

import pytest

from penstock.cli.up import is_wildcard


@pytest.mark.parametrize(
    ("host", "wildcard"),
    [
        ("0.0.0.0", True),
        ("::", True),
        ("0:0:0:0:0:0:0:0", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("localhost", False),
        ("broker-1.example.org", False),
    ],
)
def test_addresses_that_nobody_can_connect_to(host: str, wildcard: bool) -> None:
    assert is_wildcard(host) is wildcard
