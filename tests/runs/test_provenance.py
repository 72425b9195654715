"""Provenance: the version and the commit of deadtime, read without running git."""

import os
import subprocess
from pathlib import Path

import pytest

import deadtime
from deadtime.runs import provenance
from deadtime.runs.provenance import commit_of, current_provenance

FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def top(tmp_path):
    """Return a checkout of deadtime on a branch."""
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "deadtime"\n')
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git/refs/heads/main").write_text(f"{FIRST}\n")
    return tmp_path


def test_what_is_recorded(monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a program was run"))
    provenance._commit.cache_clear()
    provenance._versions.cache_clear()
    found = current_provenance("a device")
    assert found["versions"]["deadtime"] == deadtime.__version__
    assert found["device"] == "a device"
    assert found["commit"] == commit_of(Path(deadtime.__file__).parents[2])


def test_the_commit_of_a_branch(top):
    assert commit_of(top) == FIRST
    (top / ".git/refs/heads/main").unlink()
    assert commit_of(top) is None
    (top / ".git/packed-refs").write_text(
        f"# pack-refs with: peeled\n{SECOND} refs/heads/main\n^{FIRST}\n{FIRST} refs/tags/x\n"
    )
    assert commit_of(top) == SECOND
    (top / ".git/HEAD").write_text(f"{FIRST}\n")
    assert commit_of(top) == FIRST


def test_the_commit_of_a_worktree(top, tmp_path):
    other = tmp_path / "other"
    (top / ".git/worktrees/other").mkdir(parents=True)
    (top / ".git/worktrees/other/HEAD").write_text("ref: refs/heads/side\n")
    (top / ".git/worktrees/other/commondir").write_text("../..\n")
    (top / ".git/refs/heads/side").write_text(SECOND)
    other.mkdir()
    (other / "pyproject.toml").write_text('[project]\nname = "deadtime"\n')
    (other / ".git").write_text(f"gitdir: {top}/.git/worktrees/other\n")
    assert commit_of(other) == SECOND


def test_the_commit_of_another_project_is_not_ours(top):
    (top / "pyproject.toml").write_text('[project]\nname = "theirs"\n')
    assert commit_of(top) is None
    (top / "pyproject.toml").unlink()
    assert commit_of(top) is None


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: refs/heads/../../secret",
        "ref: /etc/hostname",
        "ref: refs/heads/none",
        "abc",
        "\xff",
    ],
)
def test_a_head_that_names_no_commit(head, top):
    (top / "secret").write_text(FIRST)
    (top / ".git/HEAD").write_text(head, encoding="latin-1")
    assert commit_of(top) is None


@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main"])
def test_links_and_pipes_in_a_repository(name, top):
    (top / ".git" / name).unlink()
    os.mkfifo(top / ".git" / name)
    assert commit_of(top) is None
    (top / ".git" / name).unlink()
    (top / ".git" / name).symlink_to("/dev/zero")
    assert commit_of(top) is None


def test_the_same_as_git_says(tmp_path):
    """The repository is a real one, with hooks that would leave a trace."""
    trace, hook = tmp_path / "trace", tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {trace}\n")
    hook.chmod(0o755)
    top = tmp_path / "top"
    top.mkdir()
    (top / "pyproject.toml").write_text('[project]\nname = "deadtime"\n')
    git = ["git", "-C", str(top), "-c", "user.name=x", "-c", "user.email=x@x"]
    try:
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"], ["tag", "theirs"]):
            subprocess.run([*git, *words], check=True)
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        ).stdout.strip()
        subprocess.run([*git, "config", "core.fsmonitor", str(hook)], check=True)
        assert commit_of(top) == head
        assert not trace.exists()
        subprocess.run([*git, "pack-refs", "--all"], check=True)
    except FileNotFoundError:
        pytest.skip("git is not installed")
    assert commit_of(top) == head
