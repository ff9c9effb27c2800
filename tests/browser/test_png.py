"""Pictures for the documentation stay what they are when they are made smaller."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.browser.png import PictureError, decode, encode, shrink

if TYPE_CHECKING:
    from tests.support.browser import Chromium

GRADIENT = "<body style='margin:0;height:100vh;background:radial-gradient(red,blue 40%,white)'><h1>Text</h1>"


def test_what_is_written_can_be_read() -> None:
    random = np.random.default_rng(1)
    noise = random.integers(0, 256, (17, 31, 3), np.uint8)
    smooth = np.add.outer(np.arange(40), np.arange(60))[:, :, None].repeat(3, axis=2).astype(np.uint8)
    for pixels in (noise, smooth, np.zeros((1, 1, 3), np.uint8)):
        assert (decode(encode(pixels)) == pixels).all()


def test_a_browsers_picture_becomes_smaller_and_a_browser_still_reads_it(chromium: Chromium) -> None:
    context = chromium.new_context(viewport={"width": 160, "height": 100})
    page = context.new_page()
    page.set_content(GRADIENT)
    picture = page.screenshot()
    same = shrink(picture, len(picture))
    assert (decode(same) == decode(picture)).all(), "nothing is lost as long as it fits"
    smaller = shrink(picture, len(same) * 2 // 3)
    assert np.abs(decode(smaller).astype(int) - decode(picture)).max() <= 8
    for content in (same, smaller):
        page.set_content(f"<img src='data:image/png;base64,{base64.b64encode(content).decode()}'>")
        assert page.locator("img").evaluate("async each => (await each.decode(), each.naturalWidth)") == 160
    context.close()


def test_what_can_not_be_done_is_said() -> None:
    noise = np.random.default_rng(1).integers(0, 256, (50, 50, 3), np.uint8)
    with pytest.raises(PictureError, match="100 bytes"):
        shrink(encode(noise), 100)
    with pytest.raises(PictureError, match="not PNG"):
        decode(b"GIF89a")
