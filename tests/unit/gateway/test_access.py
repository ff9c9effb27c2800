"""Token files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.gateway.access import Level, TokenFileError, read_tokens

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_of_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# who may\n\nread {'r' * 16}\n  admin\t{'a' * 16}  \n")
    tokens = read_tokens(path)
    assert tokens.level(b"Bearer " + b"r" * 16) is Level.READ
    assert tokens.level(b"bearer " + b"a" * 16) is Level.ADMIN
    assert tokens.level(b"Bearer " + b"x" * 16) is None
    assert tokens.level(None) is Level.OPEN


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no token"),
        ("# nothing\n", "no token"),
        ("read\n", "line 1"),
        (f"\nroot {'x' * 16}\n", "line 2"),
        (f"read {'x' * 16} more\n", "line 1"),
        ("read short\n", "at least 16"),
    ],
)
def test_files_that_can_not_be_used(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(TokenFileError, match=words):
        read_tokens(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError, match="No such file"):
        read_tokens(tmp_path / "tokens")


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"read \xff\xfe")
    with pytest.raises(TokenFileError, match="UTF-8"):
        read_tokens(path)
