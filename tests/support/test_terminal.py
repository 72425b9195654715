"""The terminal and figures show text from files and arguments without its markup."""

import io
from contextlib import redirect_stdout

import pytest
from rich.table import Table

from deadtime._support.pictures import put_title, save_picture
from deadtime._support.terminal import console
from deadtime.runs.figures import new_figure
from tests.commands import run
from tests.support.test_files import SOURCES

WORDS = "a[/x] [red]b :smile: \x1b[2J"


def test_text_is_only_text():
    with redirect_stdout(io.StringIO()) as out:
        console().print(WORDS, soft_wrap=True)
        table = Table(WORDS, title=WORDS)
        table.add_row(WORDS)
        console().print(table)
    assert out.getvalue().count("a[/x] [red]b :smile: ?[2J") == 4
    assert "\x1b[2J" not in out.getvalue()


def test_there_is_one_console():
    users = [path.name for path in SOURCES if "import Console" in path.read_text(encoding="utf-8")]
    assert users == ["terminal.py"]


@pytest.mark.slow
def test_words_of_users_that_look_like_markup(tmp_path):
    short = ["--episodes", 5, "--size", 3]
    found = run("train", "--env", "maze", *short, "--out", "a[/x]", cwd=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    assert "deadtime watch a[/x]/maze-delayed-m0-" in found.stdout
    setting = ["--set", "sutton_barto_reward=[/x]", "--steps", 20]
    found = run("train", "--env", "gym:CartPole-v1", *setting, "--out", "b", cwd=tmp_path)
    assert found.returncode == 0
    assert "[/x]" in found.stdout


def test_errors_are_cleaned_before_they_are_printed(tmp_path):
    found = run("evaluate", tmp_path / "a\x1b]0;x\x07\nb")
    assert found.returncode == 2
    assert f"{tmp_path}/a?]0;x?\nb has none" in found.stderr


@pytest.mark.parametrize("words", ["$\\frac$", "$x_{$", "a\x00b\ud800"])
def test_titles_are_no_formulas(words, tmp_path):
    figure, axes = new_figure(2, 2)
    put_title(axes, words)
    assert save_picture(figure, tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_comparison_of_a_setting_that_looks_like_a_formula(tmp_path):
    words = [
        "--set",
        "sutton_barto_reward=$\\frac$",
        "--steps",
        20,
        "--delays",
        0,
        "--agents",
        "oblivious",
        "--seeds",
        1,
    ]
    found = run(
        "compare",
        "--env",
        "gym:CartPole-v1",
        *words,
        "--figure",
        "x.png",
        "--out",
        "b",
        cwd=tmp_path,
    )
    assert (found.returncode, found.stderr) == (0, "")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
