"""Where a test stands, as the recorder of costs sees it from another thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.support.costs import place_of
from tests.support.wait import wait_until


def seen_from_elsewhere(thread: int) -> str:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(place_of, thread).result()


def test_the_innermost_function_of_the_tests() -> None:
    assert seen_from_elsewhere(threading.get_ident()).endswith(" seen_from_elsewhere")


def test_what_is_waited_for() -> None:
    places: list[str] = []

    def look() -> bool:
        places.append(seen_from_elsewhere(threading.get_ident()))
        return True

    wait_until(look, "a moment")
    assert places == ["a moment"]
    assert seen_from_elsewhere(threading.get_ident()) != "a moment"
