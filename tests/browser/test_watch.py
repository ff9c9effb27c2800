"""What the tests beside rely on: nothing that goes wrong in a page goes unheard, and checks can fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import accessibility
from tests.support.browser import Chromium, Console
from tests.support.wait import wait_until

ADDRESS = "http://console.test"


@pytest.fixture
def console(chromium: Chromium) -> Iterator[Console]:
    """A page of no gateway: every test does something wrong in it."""
    made = Console(chromium.new_context(), ADDRESS)
    made.page.route(
        f"{ADDRESS}/", lambda route: route.fulfill(body="<h1>Hello</h1>", content_type="text/html")
    )
    made.page.route(f"{ADDRESS}/missing", lambda route: route.fulfill(status=404))
    made.page.route(f"{ADDRESS}/broken", lambda route: route.abort("connectionrefused"))
    made.open()
    yield made
    made.close()


def wait_for_problem(console: Console) -> str:
    def problems() -> list[str]:
        console.page.evaluate("0")  # events arrive while Playwright does something
        return console.watch.problems()

    return wait_until(problems, "a problem")[0]


@pytest.mark.parametrize(
    ("script", "heard"),
    [
        ("setTimeout(() => { throw new Error('oh') })", "uncaught.*oh"),
        ("void Promise.reject(new Error('promised'))", "uncaught.*promised"),
        ("console.error('written')", "log: written"),
        ("console.warn('careful')", "log: careful"),
        ("void fetch('/missing')", "404"),
        ("void fetch('/broken').catch(() => 0)", "failed: GET .*/broken|ERR_CONNECTION_REFUSED"),
    ],
)
def test_what_is_heard(console: Console, script: str, heard: str) -> None:
    assert console.watch.problems() == []
    console.page.evaluate(f"() => {{ {script} }}")
    problem = wait_for_problem(console)
    console.watch.announce(heard)
    assert problem not in console.watch.problems(), problem


def test_what_was_announced_is_no_problem(console: Console) -> None:
    console.watch.announce("missing")
    console.page.evaluate("() => { void fetch('/missing') }")
    console.page.evaluate("() => { console.error('something else') }")
    assert "something else" in wait_for_problem(console)


def test_what_the_page_calls_off_is_no_problem(console: Console) -> None:
    console.page.route(f"{ADDRESS}/slow", lambda route: None)
    console.page.evaluate(
        "async () => { const off = new AbortController();"
        "const asked = fetch('/slow', {signal: off.signal}).catch(() => 0); off.abort(); await asked }"
    )
    console.page.evaluate("() => { console.error('the last') }")
    assert "the last" in wait_for_problem(console)


GOOD = """<!doctype html><html lang="en"><title>Good · Penstock</title>
<body style="margin:0;background:#fff;color:#333">
<header>Penstock</header><nav><a href="#x" style="color:#04c;padding:9px;display:block">Go</a></nav>
<main><h1>Good</h1><button style="width:40px;height:40px;color:#000;background:#eee">OK</button></main>"""
SHADE = "<p style='background:#0008;color:#777'>x</p><h1>"
WIDE = "<div style='width:3000px'>x</div><h1>"
BAD = {
    "a button without a name": ("OK</button>", "</button>", accessibility.nameless),
    "grey on white": ("color:#333", "color:#999", accessibility.low_contrast),
    "grey on what shines through": ("<h1>", SHADE, accessibility.low_contrast),
    "a line that is too wide": ("<h1>", WIDE, accessibility.wider_than_screen),
    "a button that is too small": ("width:40px;", "width:9px;", accessibility.small_targets),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_accessible_is_found(console: Console, case: str) -> None:
    console.page.set_content(GOOD)
    good, bad, found_by = BAD[case]
    assert found_by(console.page) == []
    accessibility.assert_accessible(console.page)
    console.page.set_content(GOOD.replace(good, bad))
    assert len(found_by(console.page)) >= 1


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("<h1>Good</h1>", ""),
        ("<h1>Good</h1>", "<h1>Good</h1><h1>Again</h1>"),
        ("<main>", "<div>"),
        ("<nav>", "<div>"),
        ('lang="en"', ""),
        ("<h1>", '<p id="a">x</p><p id="a">x</p><h1>'),
        ("<button", '<button aria-controls="nothing"'),
    ],
)
def test_a_structure_that_is_wrong_is_found(console: Console, good: str, bad: str) -> None:
    console.page.set_content(GOOD.replace(good, bad))
    with pytest.raises(AssertionError):
        accessibility.assert_accessible(console.page)


def test_a_focus_that_can_not_be_seen_is_found(console: Console) -> None:
    console.page.set_content(GOOD)
    console.page.keyboard.press("Tab")
    assert console.page.evaluate(accessibility.FOCUSED).startswith("<a")
    assert console.page.evaluate(accessibility.HAS_VISIBLE_FOCUS)
    console.page.add_style_tag(content="a:focus { outline: none }")
    assert not console.page.evaluate(accessibility.HAS_VISIBLE_FOCUS)
