"""The examples in the library's docstrings are run, against a real broker and a real gateway."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from typing import TYPE_CHECKING

import pytest

import penstock.client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tests.support.gateway import GatewayProcess


@pytest.fixture
def addresses(bootstrap: str, shared_gateway: GatewayProcess) -> dict[str, str]:
    """What the default addresses stand for. No other test has the topics of the docstrings."""
    return {"127.0.0.1:9092": bootstrap, "http://127.0.0.1:8080": shared_gateway.url}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(penstock.client.__path__, "penstock.client."):
        yield importlib.import_module(found.name)


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules() for test in finder.find(module) if test.examples]


def test_every_class_for_users_has_an_example() -> None:
    shown = {test.name.rpartition(".")[2] for test in examples()}
    assert {"Producer", "Consumer", "AsyncProducer", "AsyncConsumer", "Publisher", "Subscriber"} <= shown


def test_examples(addresses: dict[str, str]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    report: list[str] = []
    for test in examples():
        for example in test.examples:
            for default, own in addresses.items():
                example.source = example.source.replace(default, own)
        runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)
    assert runner.tries >= 20
