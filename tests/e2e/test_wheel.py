"""The built wheel, installed into an empty environment outside the repository, runs the quickstart."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.broker import BrokerProcess

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 280.0


def clean_environment() -> dict[str, str]:
    """Without what would let the installed package see the repository."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PENSTOCK_BOOTSTRAP", "PENSTOCK_HTTP")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "PYTHONDONTWRITEBYTECODE": ""}


def run(*command: str | Path, cwd: Path, stdin: str = "") -> str:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean_environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS_MAX,
    )
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that building leaves nothing behind in the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    # The console is built and ignored by git: without .gitignore it would be packed by chance.
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    run(*pip, str(source), cwd=folder)
    found = list(folder.glob("penstock-*.whl"))
    assert len(found) == 1
    return found[0]


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {
        "penstock",
        wheel.name.rsplit("-py3", 1)[0] + ".dist-info",
    }
    assert "penstock/py.typed" in names
    assert "penstock/cli/up.py" in names
    assert "penstock/gateway/console/assets/index.html" in names, "built by `make console`"
    assert [
        name for name in names if re.fullmatch(r"penstock/gateway/console/assets/assets/.+\.js(\.gz)?", name)
    ]
    assert not [name for name in names if "__pycache__" in name or "/." in name or name.startswith("tests/")]


def test_the_quickstart_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "empty"
    venv.create(home)
    python = home / "bin" / "python"
    # By our own pip: to give the environment one costs as much as a third of the installation. What is
    # imported is compiled then, and the many modules that are not need not be.
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-compile"]
    run(*pip, "--constraint", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    penstock = home / "bin" / "penstock"
    assert run(penstock, "--version", cwd=tmp_path).startswith("penstock 0.")
    broker = BrokerProcess(tmp_path, python=str(python), environment={"PYTHONPATH": ""}, with_gateway=True)
    with broker:
        address = ("--bootstrap", broker.bootstrap)
        run(penstock, "produce", "greetings", *address, cwd=tmp_path, stdin="hello\nagain\n")
        assert run(penstock, "consume", "greetings", "-n", "2", *address, cwd=tmp_path) == "hello\nagain\n"
        in_group = ("--group", "g", "-n", "1")
        assert run(penstock, "consume", "greetings", *in_group, *address, cwd=tmp_path) == "hello\n"
        where = run(python, "-c", "import penstock; print(penstock.__file__)", cwd=tmp_path)
        assert where.startswith(str(home))
        assert_console(broker.http)


def assert_console(address: str) -> None:
    with urllib.request.urlopen(f"{address}/", timeout=20) as response:
        page = response.read().decode()
    script = re.search(r'src="(/console/assets/[^"]+\.js)"', page)
    assert script is not None, page
    with urllib.request.urlopen(address + script[1], timeout=20) as response:
        assert response.headers["content-type"].startswith("text/javascript")
        assert len(response.read()) > 10_000
