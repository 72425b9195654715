"""The fuzzer with few cases; `make test-all` runs 100,000."""

import pytest

from tests.commands import full
from tests.hardening.fuzzer import Fuzzer, fuzz


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cases", "seed"), [(400, 0), *(full(25_000, seed) for seed in (1, 2, 3, 4))]
)
def test_every_file_is_read_or_refused(cases, seed):
    ends, failed = fuzz(cases, seed)
    assert not failed, "\n".join(failed[:5])
    assert sum(ends.values()) == cases
    for kind in ("record", "pack", "policy", "damaged_record", "saved_state", "status", "sweep"):
        assert ends[f"{kind} refused"] > 0, (
            f"no case of {kind} was refused: the fuzzer changes nothing that matters"
        )


@pytest.mark.slow
@pytest.mark.parametrize(("cases", "seed"), [(12, 5), full(1000, 6)])
def test_hostile_folders_are_looked_at_and_written_to_safely(cases, seed):
    ends, failed = fuzz(cases, seed, "folder")
    assert not failed, "\n".join(failed[:5])
    assert sum(ends.values()) == cases


def test_the_fuzzer_notices(tmp_path, monkeypatch):
    """The fuzzer reports wrong exceptions, slow cases, and files written outside."""
    monkeypatch.setattr("tests.hardening.fuzzer.MOST_SECONDS", 1)
    monkeypatch.setattr(Fuzzer, "__init__", lambda self, root, seed: _bare(self, root, seed))
    for harm, why in (
        (_raise, "ZeroDivisionError"),
        (_wait, "it took 1 s"),
        (_write, "outside the folder was changed"),
    ):
        monkeypatch.setattr(Fuzzer, "folder", harm)
        ends, failed = fuzz(1, 0, "folder")
        assert why in failed[0]


def _bare(fuzzer, root, seed):
    import random

    fuzzer.rng, fuzzer.outside = random.Random(seed), root / "outside"
    fuzzer.outside.mkdir()
    (fuzzer.outside / "precious.txt").write_text("precious")


def _raise(fuzzer):
    raise ZeroDivisionError


def _wait(fuzzer):
    while True:
        pass


def _write(fuzzer):
    (fuzzer.outside / "new").mkdir()
