"""Logs in files: read, refused, and the command."""

import json
import os
import zipfile

import numpy as np
import pytest

from deadtime.cli.main import main
from deadtime.identify.read_log import Columns, read_table
from tests.identify.systems import linear_log


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as exit_:
            main(["identify", *map(str, arguments)])
        captured = capsys.readouterr()
        return exit_.value.code, captured.out, captured.err

    return call


def csv_log(path, delay=2, rows=400):
    seen, chosen = linear_log(delay, rows=rows)
    lines = [
        f"{t * 0.02:.2f},{s[0]},{s[1]},{a[0]},one"
        for t, (s, a) in enumerate(zip(seen, chosen, strict=False))
    ]
    path.write_text("time,x,v,force,name\n" + "\n".join(lines) + "\n")
    return path


def test_csv(run, tmp_path):
    log = csv_log(tmp_path / "log.csv")
    names = ("--observations", "x,v", "--actions", "force")
    status, out, _ = run(log, *names, "--json", "--max-delay", 6)
    found = json.loads(out)
    assert status == 0
    assert found["delay"] == 2
    assert found["seconds"] == pytest.approx(0.04)
    status, out, _ = run(log, *names, "--max-delay", 6)
    assert "the delay is 2 steps (0.04 s), 90% interval 2" in out
    assert "cross-correlation: first at lag 2" in out


def test_npz_with_flags_of_ends(run, tmp_path):
    logs = [linear_log(3, rows=150, seed=seed) for seed in range(3)]
    done = np.zeros(450, bool)
    done[149::150] = True
    np.savez(
        tmp_path / "log.npz",
        observations=np.concatenate([s[:-1] for s, _ in logs]),
        actions=np.concatenate([a for _, a in logs]),
        terminals=done,
    )
    status, out, _ = run(tmp_path / "log.npz", "--json", "--max-delay", 6)
    assert (status, json.loads(out)["delay"], json.loads(out)["episodes"]) == (0, 3, 3)


def test_numbered_columns_and_episodes_of_text(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("episode,obs0,obs1,action\na,1,2.5,0\na,2,3,1\nb,4,5,1\n")
    table = read_table(path, Columns())
    assert table.observations.tolist() == [[1, 2.5], [2, 3], [4, 5]]
    assert table.actions.tolist() == [0, 1, 1]
    assert table.actions.dtype == np.int64
    assert table.episodes.tolist() == [0, 0, 1]


def test_a_mark_in_front_of_the_text_is_no_part_of_the_first_name(tmp_path):
    """Spreadsheets write one; the episodes would be lost without a word."""
    path = tmp_path / "log.csv"
    path.write_text("episode,obs,action\n0,1,2\n1,2,3\n", "utf-8-sig")
    assert read_table(path, Columns()).episodes.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("stamps", "message"),
    [
        ("0.0,1e300", "takes at most 10,000 steps of 0.02 s; got 1e+300 s: write all times in"),
        ("early,late", "action stamps are numbers of seconds; got text in the column 'chosen'"),
    ],
)
def test_stamps_that_are_refused(run, tmp_path, stamps, message):
    rows = csv_log(tmp_path / "log.csv").read_text().splitlines()
    lines = [f"{rows[0]},chosen,executed", *(f"{row},{stamps}" for row in rows[1:])]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    names = ("--observations", "x,v", "--actions", "force", "--action-stamps", "chosen,executed")
    status, _, err = run(tmp_path / "log.csv", *names, "--max-delay", 4)
    assert status == 2
    assert message in err
    assert "Warning" not in err


def test_logs_that_would_take_much_memory_are_refused(run, tmp_path, monkeypatch):
    """Numbers of one byte take eight as soon as they are used."""
    monkeypatch.setattr("deadtime.identify.read_log.MOST_BYTES", 2**16)
    seen = np.zeros((1000, 10), np.int8)
    np.savez(tmp_path / "log.npz", observations=seen, actions=seen[:, 0])
    status, _, err = run(tmp_path / "log.npz")
    assert status == 2
    assert "it has 11,000 numbers, and at most 8,192 are read: cut the log" in err


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    seen, chosen = linear_log(1, rows=20)
    table = pyarrow.table({"obs0": seen[:-1, 0], "obs1": seen[:-1, 1], "action": chosen[:, 0]})
    parquet.write_table(table, tmp_path / "log.parquet")
    found = read_table(tmp_path / "log.parquet", Columns())
    assert np.array_equal(found.observations, seen[:-1])
    assert np.array_equal(found.actions, chosen[:, 0])


def test_a_log_that_shows_nothing_is_status_1(run, tmp_path):
    seen, _ = linear_log(2)
    np.savez(tmp_path / "log.npz", observations=seen[:-1], actions=np.ones(400))
    status, out, _ = run(tmp_path / "log.npz")
    assert status == 1
    assert "not identifiable, because the actions are constant" in out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", b"", "a log is a file that ends in .csv, .npz, .parquet"),
        ("log.csv", b"", "2 to 2048 columns with names in the first line; got 0"),
        ("log.csv", b"obs;action\n1;2\n", "got 1: put commas between the columns"),
        ("log.csv", b"time,obs,action\n2026-01-01,1,2\n2026-01-02,1,2\n", "got text in the column"),
        ("log.csv", b"obs,action\nleft,2\nright,2\n", "observations are numbers; got text"),
        ("log.csv", b"\xff\xfe\x00", "a CSV file is UTF-8 text"),
        ("log.csv", b"obs,action\n1,2\n3\n", "got 1 in line 3: repair the line"),
        ("log.csv", b"1,2\n3,4\n", "the first line has the names of the columns; got numbers"),
        ("log.csv", b"a,a\n3,4\n", "got one twice"),
        ("log.csv", b"a,b\n3,4\n", "no column is called 'observations'; the columns are a, b"),
        ("log.csv", b"obs,action\n1,2\n,3\n2,3\n", "got nan in row 1: cut these rows"),
        ("log.csv", b"obs,action\n1,2\n2,right\n2,3\n", "got nan in row 1: cut these rows"),
        (
            "log.csv",
            b"obs,action\n1,2\n1e200,3\n2,3\n",
            "up to 1e+150; got 1e+200 in row 1",
        ),
        (
            "log.csv",
            b"obs,action\n",
            "a log has one row per step; got only the names of the columns",
        ),
        ("log.csv", b"episode,obs,action\n1,1,2\nend,3,4\n", "got nan in row 1: number each row"),
        ("log.csv", b"obs,action\n" + b'"' + b"x" * 200_000, "field larger than field limit"),
        ("log.npz", b"PK\x03\x04 no archive", "it is no .npz file that can be read"),
    ],
)
def test_broken_files_are_refused(run, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    status, out, err = run(tmp_path / name)
    assert status == 2
    assert message in err
    assert "Traceback" not in err


def test_a_wrong_column_has_a_hint(run, tmp_path):
    log = csv_log(tmp_path / "log.csv", rows=3)
    status, _, err = run(log, "--observations", "x,vv", "--actions", "force")
    assert status == 2
    assert "no column is called 'vv'; did you mean 'v'?" in err


def test_hostile_archives_are_refused(run, tmp_path, marker, monkeypatch):
    monkeypatch.setattr("deadtime.identify.read_log.MOST_BYTES", 2**20)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("observations.npy", b"\0" * (2**20 + 1))
    status, _, err = run(tmp_path / "bomb.npz")
    assert status == 2
    assert "and at most 1,048,576 are read" in err
    np.savez(tmp_path / "code.npz", observations=np.array([Payload(marker)], object), actions=[1])
    status, _, err = run(tmp_path / "code.npz")
    assert status == 2
    assert "only numbers are read" in err


class Payload:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_links_and_missing_files_are_refused(run, tmp_path):
    csv_log(tmp_path / "log.csv", rows=5)
    (tmp_path / "link.csv").symlink_to(tmp_path / "log.csv")
    assert "is no plain file but a link" in run(tmp_path / "link.csv")[2]
    assert run(tmp_path / "none.csv")[0] == 2
    for name in ("pipe.csv", "pipe.npz"):
        os.mkfifo(tmp_path / name)
        assert "is no plain file but a link, pipe" in run(tmp_path / name)[2]


@pytest.mark.slow
def test_plot(run, tmp_path):
    log = csv_log(tmp_path / "log.csv")
    names = ("--observations", "x,v", "--actions", "force", "--max-delay", 4)
    assert run(log, *names, "--plot", tmp_path / "out.svg")[0] == 0
    assert b"<svg" in (tmp_path / "out.svg").read_bytes()
    assert "end the name in .png or .svg" in run(log, *names, "--plot", tmp_path / "a.pdf")[2]
