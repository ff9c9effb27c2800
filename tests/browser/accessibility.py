"""What can be checked about a page for people who do not see it, do not point at it, or hardly see it.

Names are those that the browser itself computes for a screen reader. Contrast is computed from the colours
that are in force, as WCAG 2 says: 4.5 for text, 3 for large text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

INTERACTIVE = {
    "button", "checkbox", "combobox", "link", "listbox", "menuitem", "option", "radio", "searchbox", "slider",
    "spinbutton", "switch", "tab", "textbox",
}  # fmt: skip

LOW_CONTRAST = """() => {
  const parse = text => {
    const found = text.match(/rgba?\\(([^)]+)\\)/);
    if (!found) return null;
    const [r, g, b, a = 1] = found[1].split(/[ ,\\/]+/).filter(part => part !== '').map(Number);
    return {r, g, b, a};
  };
  const over = (top, under) => ({
    r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a),
    b: top.b * top.a + under.b * (1 - top.a), a: 1,
  });
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const colour = text => {  // whatever way it is written, the canvas knows it
    const plain = parse(text);
    if (plain) return plain;
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return {r, g, b, a: a / 255};
  };
  const ground = element => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const layer = colour(getComputedStyle(each).backgroundColor);
      layers.push(layer);
      if (layer.a === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), {r: 255, g: 255, b: 255, a: 1});
  };
  const light = ({r, g, b}) => {
    const part = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const exempt = ':disabled, [aria-disabled=true], .visually-hidden, .maplibregl-map, script, style';
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.textContent.trim();
    if (text === '' || !element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
    if (element.closest(exempt)) continue;
    const style = getComputedStyle(element);
    const back = ground(element);
    const front = over(colour(style.color), back);
    const [low, high] = [light(front), light(back)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5))
      found.push(`${text.slice(0, 40)} (${element.className}): ${ratio.toFixed(2)}`);
  }
  return found;
}"""

HAS_VISIBLE_FOCUS = """() => {
  const seen = element => {
    const style = getComputedStyle(element);
    const hasOutline = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
    return hasOutline || style.boxShadow !== 'none';
  };
  // What is drawn around a choice may be its label's.
  for (let each = document.activeElement, steps = 0; each && steps < 2; each = each.parentElement, steps += 1)
    if (seen(each)) return true;
  return false;
}"""

FOCUSED = """() => {
  const element = document.activeElement;
  return element === document.body ? '' : element.outerHTML.slice(0, 120);
}"""

STRUCTURE = """() => {
  const ids = [...document.querySelectorAll('[id]')].map(each => each.id);
  const dangling = [];
  for (const name of ['aria-labelledby', 'aria-describedby', 'aria-controls', 'for'])
    for (const element of document.querySelectorAll(`[${name}]`))
      for (const id of element.getAttribute(name).split(/\\s+/))
        if (!document.getElementById(id)) dangling.push(`${name}=${id}`);
  const visible = selector => [...document.querySelectorAll(selector)].filter(each => each.checkVisibility());
  return {
    headings: visible('h1').length, mains: visible('main').length, navigations: visible('nav').length,
    banners: visible('body header').length, language: document.documentElement.lang, title: document.title,
    repeated: ids.filter((id, index) => ids.indexOf(id) !== index), dangling,
  };
}"""

WIDER_THAN_SCREEN = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll('body *')]
    .filter(each => each.getBoundingClientRect().right > width + 1)
    .map(each => each.outerHTML.slice(0, 100));
}"""

SMALL_TARGETS = """() => [...document.querySelectorAll('button, input, select, textarea, nav a')]
  .filter(each => each.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}))
  .map(each => [each, (each.closest('label') ?? each).getBoundingClientRect()])
  .filter(([, box]) => box.width < 24 || box.height < 24)
  .map(([each, box]) => `${each.outerHTML.slice(0, 90)}: ${box.width | 0}x${box.height | 0}`)"""


def nameless(page: Page) -> list[str]:
    """Interactive elements that a screen reader has no name for."""
    session = page.context.new_cdp_session(page)
    nodes: list[dict[str, Any]] = session.send("Accessibility.getFullAXTree")["nodes"]
    found = [
        session.send("DOM.describeNode", {"backendNodeId": node["backendDOMNodeId"]})["node"]["attributes"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"] in INTERACTIVE
        and not node.get("name", {}).get("value", "").strip()
    ]
    session.detach()
    return [str(attributes) for attributes in found]


def low_contrast(page: Page) -> list[str]:
    found: list[str] = page.evaluate(LOW_CONTRAST)
    return found


def structure(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.evaluate(STRUCTURE)
    return found


def assert_accessible(page: Page) -> None:
    told = structure(page)
    assert told["headings"] == 1, "each page has one h1"
    assert told["mains"] == 1
    assert told["navigations"] >= 1
    assert told["banners"] >= 1
    assert told["language"] == "en"
    assert told["title"].endswith("Penstock")
    assert told["repeated"] == []
    assert told["dangling"] == []
    assert nameless(page) == []
    assert low_contrast(page) == []


def wider_than_screen(page: Page) -> list[str]:
    """Elements because of which the page would have to be scrolled sideways."""
    found: list[str] = page.evaluate(WIDER_THAN_SCREEN)
    return found


def small_targets(page: Page) -> list[str]:
    """Controls that a finger misses: WCAG 2.2 asks for 24 by 24."""
    found: list[str] = page.evaluate(SMALL_TARGETS)
    return found
