"""Files: only plain ones are read, no link is written through, and JSON is limited in size."""

import ast
import os
import platform
import re
import socket
from pathlib import Path
from threading import get_ident

import pytest

import deadtime
from deadtime._support import files

SOURCES = sorted(Path(deadtime.__file__).parent.rglob("*.py"))


@pytest.fixture
def precious(tmp_path):
    path = tmp_path / "precious.txt"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious"


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


ODD = {
    "a link": lambda path, precious: path.symlink_to(precious),
    "a link to nothing": lambda path, precious: path.symlink_to(precious.parent / "nothing"),
    "a link to a device": lambda path, precious: path.symlink_to("/dev/zero"),
    "a pipe": lambda path, precious: os.mkfifo(path),
    "a folder": lambda path, precious: path.mkdir(),
    "a socket": lambda path, precious: put_socket(path),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT])
def test_only_plain_files_are_opened(what, flags, tmp_path, precious):
    ODD[what](tmp_path / "it", precious)
    with pytest.raises(ValueError, match="^it is no plain file but a link, pipe or the like$"):
        files.open_plain(tmp_path / "it", flags)
    with pytest.raises(ValueError, match="^it is no plain file"):
        files.plain(tmp_path / "it")
    assert {path.name for path in tmp_path.iterdir()} == {"it", "precious.txt"}


def test_a_file_with_two_names_is_read_and_not_changed(tmp_path, precious):
    (tmp_path / "it").hardlink_to(precious)
    assert files.plain(tmp_path / "it") == b"precious"
    with pytest.raises(ValueError, match="^it is no plain file but a link"):
        files.open_plain(tmp_path / "it", os.O_RDWR)


def test_sizes_are_known_before_anything_is_read(tmp_path):
    (tmp_path / "it").touch()
    os.truncate(tmp_path / "it", 2**40)
    with pytest.raises(
        ValueError, match="^it has 1,099,511,627,776 bytes, and at most 16,777,216 are read$"
    ):
        files.plain(tmp_path / "it")
    os.truncate(tmp_path / "it", 3)
    assert files.plain(tmp_path / "it", 3) == bytes(3)


def test_folders_are_no_links(tmp_path, precious):
    inside = tmp_path / "root"
    assert files.folder_in(inside, "a", "b") == inside / "a" / "b"
    assert files.folder_in(inside, "a", "b").is_dir()
    assert not files.is_folder(inside / "none")
    (inside / "link").symlink_to(tmp_path)
    (inside / "dangling").symlink_to(tmp_path / "new")
    (inside / "file").touch()
    for name in ("link", "dangling", "file"):
        with pytest.raises(
            ValueError, match=f"root/{name} is no folder but a link, file or the like: delete it"
        ):
            files.folder_in(inside, name, "c")
    assert {path.name for path in tmp_path.iterdir()} == {"root", "precious.txt"}
    (tmp_path / "named").symlink_to(inside)
    assert files.folder_in(tmp_path / "named", "d").is_dir(), (
        "who names a link means what it leads to"
    )


def test_nothing_is_written_through_a_link(tmp_path, precious):
    """Links at the path and at the temporary path are both left alone."""
    part = tmp_path / f".it.part-{platform.node()}-{os.getpid()}-{get_ident()}"
    for link in (tmp_path / "it", part):
        link.symlink_to(precious)
        with files.whole(tmp_path / "it") as path:
            path.write_text("new")
        assert not (tmp_path / "it").is_symlink()
        assert (tmp_path / "it").read_text() == "new"


def test_a_folder_that_is_named_like_what_a_killed_process_left(tmp_path):
    (tmp_path / f".it.part-{platform.node()}-99999999-1").mkdir()
    with files.whole(tmp_path / "it") as path:
        path.write_text("new")
    assert (tmp_path / "it").read_text() == "new"


def nested(levels):
    return b"[" * levels + b"]" * levels


@pytest.mark.slow
def test_json_is_neither_deep_nor_endless():
    assert files.from_json(nested(32)) is not None
    with pytest.raises(ValueError, match=r"it is nested 33 levels deep, and at most 32 are read"):
        files.from_json(nested(33))
    with pytest.raises(ValueError, match=r"it is nested 901 levels deep"):
        files.from_json(b'{"a": ' * 900 + b"[" + b"1," * 10**6 + b"1]" + b"}" * 900)
    with pytest.raises(
        ValueError, match=r"it has about 2,000,000 values, and at most 1,048,576 are read"
    ):
        files.from_json(b"[" + b"[]," * 666_666 + b"1]")
    with pytest.raises(
        ValueError, match=r"it has 16,777,217 bytes, and at most 16,777,216 are read"
    ):
        files.from_json(b'"' + b"a" * (files.TEXT_BYTES - 1) + b'"')
    for text in ('"[[[[{{{{"', '"\\"' + "[" * 99 + '"', '"\\\\"', '"é[" '):
        assert files.from_json(f"[{text}]".encode())


@pytest.mark.parametrize(
    "text", ['"' * 10**6, '"\\' * 10**6, '"\\"[' * 10**6, "[" * 10**6, "\\" * 10**6]
)
def test_text_that_is_no_json_is_searched_once(text):
    with pytest.raises(ValueError, match="^it is not JSON that can be read"):
        files.from_json(text.encode())


def test_json_in_another_encoding():
    with pytest.raises(ValueError, match="^it is not JSON that can be read"):
        files.from_json("[[1]]".encode("utf-16"))


def test_control_characters_are_replaced():
    assert files.printable_lines("a\x1b[2J\nb\rc\x07\u2028é") == "a?[2J\nb?c??é"


@pytest.mark.slow
def test_text_files_are_in_utf8_whatever_the_locale():
    """Every file that is read or written as text names its encoding."""
    found = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(
                getattr(node, "func", None), "attr", getattr(getattr(node, "func", None), "id", "")
            )
            if not isinstance(node, ast.Call) or name not in ("read_text", "write_text", "open"):
                continue
            binary = any(
                isinstance(one, ast.Constant) and re.fullmatch("[rwa]b", str(one.value))
                for one in node.args
            )
            other = (
                isinstance(node.func, ast.Attribute) and name == "open"
            )  # of os, zipfile and Pillow
            if not binary and not other and "encoding" not in {one.arg for one in node.keywords}:
                found.append(f"{path.name}, line {node.lineno}")
    assert not found
