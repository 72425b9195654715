"""Checkpoints: a failed write costs the checkpoint only, and a foreign file is refused."""

import json
import os
import resource
import signal

import numpy as np
import pytest
from safetensors import SafetensorError

from deadtime.learn import checkpoint, compiled_groups
from deadtime.learn.checkpoint import Extent
from deadtime.learn.deep_training import run_deep
from deadtime.runs.deep_specs import DeepSpec
from tests.commands import full, recorded
from tests.processes import nothing_left, start, wait_for  # noqa: F401

STATE = {"weights": np.arange(3000.0)}
TINY = {"hidden": (4,), "batch_size": 4, "buffer_size": 50}
CART = DeepSpec("cartpole", "oblivious", 1, "paper", 400, changes=TINY, evaluation_episodes=2)


def saved(path, ended=(), **about):
    rows = np.array(ended, np.float64).reshape(-1, 3)
    checkpoint.save(path, STATE, {"ended": rows}, {"steps": 8, "seconds": 1.5} | about)
    return path


def read(path, extent=Extent(10, 2, 4)):  # noqa: B008
    return checkpoint.load(path, STATE, {"ended": np.zeros((0, 3))}, extent)


def test_what_was_written_is_read(tmp_path):
    rows = [[0, 0, -1.5], [3, 7, 2.0]]
    state, arrays, about = read(saved(tmp_path / "x", rows, steps=11, resumed_at=[0, 11]))
    assert (state["weights"] == STATE["weights"]).all()
    assert arrays["ended"].tolist() == rows
    assert about == {"steps": 11, "seconds": 1.5, "resumed_at": [0, 11]}
    assert read(saved(tmp_path / "x", steps=0))[2]["steps"] == 0


@pytest.mark.parametrize("name", ["state/0", "ended", "other"])
def test_sizes_are_checked_before_anything_is_read(name, tmp_path):
    """A sparse file takes no room on a disk, and may claim any size."""
    claimed = 6 * 2**30
    header = {"__metadata__": {"about": "{}", "sum": "0"}}
    header[name] = {"dtype": "U8", "shape": [claimed], "data_offsets": [0, claimed]}
    text = json.dumps(header).encode()
    path = tmp_path / "x"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    os.truncate(path, 8 + len(text) + claimed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(
        ValueError, match="x is no checkpoint of this run .*(at most|is larger than)"
    ):
        read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"steps": -1}, "the steps of this run are 0 to 11; got -1"),
        ({"steps": 12}, "the steps of this run are 0 to 11; got 12"),
        ({"steps": 2**60}, f"got {2**60}"),
        ({"seconds": float("nan")}, "time of a run is 0 seconds or more; got nan"),
        ({"seconds": -0.1}, "time of a run is 0 seconds or more; got -0.1"),
        ({"seconds": float("inf")}, "time of a run is 0 seconds or more; got inf"),
        ({"resumed_at": [9]}, r"a run resumes at steps that it has made; got \[9\] of 8"),
        ({"resumed_at": [-2]}, r"a run resumes at steps that it has made; got \[-2\] of 8"),
        *(
            (
                {"ended": [[0, 1, 1.0], row]},
                "episodes end in steps that were made, with finite returns; got ",
            )
            for row in (
                [0, 8, 1.0],
                [0, -1, 1.0],
                [4, 1, 1.0],
                [-1, 1, 1.0],
                [0.5, 1, 1.0],
                [0, 1.5, 1.0],
                [0, 1, np.inf],
            )
        ),
        ({"ended": [[0, np.nan, 1.0]]}, "episodes end in steps that were made"),
    ],
)
def test_what_no_run_says_is_refused(wrong, why, tmp_path):
    with pytest.raises(
        ValueError,
        match=rf"x is no checkpoint of this run \(.*{why}.*\): delete it, and the run starts again",
    ):
        read(saved(tmp_path / "x", **wrong))


def test_a_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(saved(tmp_path / "x"))
    with pytest.raises(
        ValueError, match=r"link is no checkpoint of this run \(link is no plain file"
    ):
        read(tmp_path / "link")


def test_a_full_disk_is_said_once_a_run(tmp_path, capfd):
    """A real one, of which the library for such files says so in its own words."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, limits[1]))
    try:
        for name in ("x", "x", "y"):
            saved(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 2
    for line, name in zip(said, "xy", strict=True):
        assert line.startswith(
            f"deadtime: warning: a checkpoint can't be written to {tmp_path}/{name} ("
        )
        assert line.endswith(
            "): the run continues, but an interruption would lose its progress; "
            "free some space there"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [SafetensorError("no room"), OSError(28, "No space left on device")]
)
def test_a_run_whose_checkpoints_fail_is_done(error, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compiled_groups, "CHUNK_STEPS", 50)
    (straight,) = recorded(run_deep([(CART, 0)], lambda n: None))

    def no_room(*arguments, **named):
        raise error

    monkeypatch.setattr(checkpoint, "save_file", no_room)
    monkeypatch.setattr(compiled_groups, "WRITE_EVERY_SECONDS", -1.0)
    (record,) = recorded(run_deep([(CART, 0)], lambda n: None, checkpoints=tmp_path))
    assert record.scores == straight.scores
    np.testing.assert_array_equal(record.curve, straight.curve)
    assert capsys.readouterr().err.count("a checkpoint can't be written to") == 1


CART_WORDS = [
    "train",
    "--env",
    "cartpole",
    "--preset",
    "paper",
    "--steps",
    "2000000",
    "--set",
    "hidden=[4]",
    "--set",
    "buffer_size=50000",
]
COMMAND = """
from deadtime.cli import main
from deadtime.learn import compiled_groups as deep

def episodes(*arguments, real=deep._episodes):
    open("begun", "w").close()
    return real(*arguments)

deep._episodes = episodes
main()
"""
LIMITED = (
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n" + COMMAND
)
INTERRUPTED = "deadtime: interrupted; finished seeds are recorded, "
WRITTEN = f"{INTERRUPTED}1 checkpoint was written. Resume with: deadtime "
NONE = f"{INTERRUPTED}no checkpoint was written, so unfinished seeds start again. Resume with: "


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "number", "status", "said"),
    [(COMMAND, signal.SIGTERM, 143, WRITTEN), full(LIMITED, signal.SIGINT, 130, NONE)],
    ids=["SIGTERM", "full disk"],
)
def test_what_is_said_of_checkpoints_is_true(code, number, status, said, tmp_path):
    command, _ = start("-c", code, *CART_WORDS, cwd=tmp_path, JAX_ENABLE_COMPILATION_CACHE="0")
    wait_for((tmp_path / "begun").exists)
    command.send_signal(number)
    error = command.communicate(timeout=60)[1]
    assert command.returncode == status, error
    assert error.splitlines()[-1].startswith(said)
    assert error.count("a checkpoint can't be written to") == (code == LIMITED)
    assert len(list((tmp_path / "runs").glob(".checkpoints/*"))) == (said == WRITTEN)
