"""Every command in the docs is run, and prints what the docs say it prints.

A `console` block holds commands (`$ …`) and what they print; `…` stands for anything. The blocks of a page
are one session, in one folder. A node (`penstock up`, `penstock broker`) is started in the background and
takes the place of the one before it; pages whose node is a plain `penstock up` have the same one, without the
topics and groups of the page before. `python` blocks are run as scripts in the same session, and a `toml`
block is the page's `node.toml`. Default ports are replaced by free ones on the way in, and put back on the
way out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.docs_pages import (
    MAKE_TARGETS_RUN_BY_CI,
    PAGES,
    PlainNode,
    blocks,
    run_page,
    with_commands,
)
from tests.support.managed_process import ROOT


@pytest.fixture(scope="module")
def plain_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainNode]:
    with PlainNode(tmp_path_factory.mktemp("plain-node")) as node:
        yield node


@pytest.mark.parametrize("page", with_commands(on_spark=False))
def test_the_commands_of_a_page(page: Path, tmp_path: Path, plain_node: PlainNode) -> None:
    run_page(page, tmp_path, plain_node)


def test_make_targets_of_the_docs_exist() -> None:
    targets = [command.removeprefix("make ") for command in sorted(MAKE_TARGETS_RUN_BY_CI)]
    result = subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_commands_are_only_in_blocks_that_are_run() -> None:
    for page in PAGES:
        for language, content in blocks(page):
            if language not in ("console", "python", "toml", "java"):
                assert not re.search(r"^\s*(\$ )?(penstock|kcat|make) ", content, re.MULTILINE), page


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.needs("curl", "kcat")
def test_the_tools_of_the_docs_are_there() -> None:
    for tool in ("bash", "curl", "kcat", "make"):
        assert shutil.which(tool), f"{tool} is missing: install it, the docs and the tests use it"
