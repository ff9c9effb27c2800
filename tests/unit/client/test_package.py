"""What `import penstock` offers, and what it costs those who want none of it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock
import penstock.client


def test_names() -> None:
    for name in penstock.client.__all__:
        assert getattr(penstock, name) is getattr(penstock.client, name)
        assert name in dir(penstock)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = penstock.Nothing


def test_the_package_offers_just_what_the_library_does() -> None:
    assert set(penstock.client.__all__) == penstock._CLIENT


def test_errors_have_one_base() -> None:
    names = [name for name in penstock.client.__all__ if name.endswith("Error")]
    assert len(names) == 22
    for name in names:
        assert issubclass(getattr(penstock, name), penstock.PenstockError)


def modules_after(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_the_library_is_imported_when_it_is_used() -> None:
    assert not {"penstock.client", "confluent_kafka", "asyncio"} & modules_after("import penstock")
    assert "confluent_kafka" not in modules_after("from penstock import Producer, Consumer, Publisher")
