"""Units keep the policies that a command asks for."""

import pytest

from deadtime.runs import packs, records, runner
from deadtime.runs.result import Result
from deadtime.runs.runner import How, Where, train_missing
from deadtime.runs.units import KEPT_POLICY_BYTES, Keep, Unit, from_json, trained
from tests.commands import run
from tests.runs.pack_helpers import small_only


def test_units_say_whose_policies_are_kept(originals):
    spec = Result(next(iter(originals.values()))).spec
    unit = Unit(((spec, 0), (spec, 1)), keep=Keep((0, 7), 10**6))
    again = from_json(unit.to_json())
    assert (again.runs, again.keep, again.id) == (unit.runs, unit.keep, Unit(unit.runs).id)
    (record,) = trained(unit, None, lambda n: None)
    assert (record.seeds, record.policy_seeds) == ([0, 1], [0])
    assert {name.partition("/")[0] for name in record.policies} == {"0"}
    (bare,) = trained(Unit(unit.runs), None, lambda n: None)
    assert (bare.policies, bare.policy_seeds) == ({}, [])
    assert bare.scores == record.scores


def test_large_policies_are_not_kept(originals):
    spec = Result(next(iter(originals.values()))).spec
    (record,) = trained(Unit(((spec, 0),), keep=small_only(0)), None, lambda n: None)
    size = record.policy_bytes()
    assert 0 < size <= KEPT_POLICY_BYTES
    (record,) = trained(Unit(((spec, 0),), keep=Keep((0,), size - 1)), None, lambda n: None)
    assert record.policy_seeds == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["inline", "local"])
def test_studies_keep_the_first_policy(engine, originals, tmp_path):
    spec = Result(next(iter(originals.values()))).spec
    assert train_missing([(spec, range(3))], tmp_path, Where(engine), how=How(small_only(0))) == 0
    packs.pack(tmp_path)
    record = records.read(tmp_path / spec.name, policies=True)
    assert (record.seeds, record.policy_seeds) == ([0, 1, 2], [0])
    found = run("evaluate", tmp_path / spec.name, "--episodes", "2")
    assert "over 1 seed; 2 seeds without a recorded policy" in " ".join(found.stdout.split())
    seeds = [*range(1, 4)]
    assert train_missing([(spec, seeds)], tmp_path, Where(engine), how=How(small_only(1))) == 0
    assert records.read(tmp_path / spec.name).policy_seeds == [
        0
    ]  # what is recorded is not run again


def test_records_without_policies(originals, tmp_path):
    record = next(iter(originals.values())).without_policies()
    spec = Result(record).spec
    records.write(tmp_path / spec.name, record)
    command = "deadtime train --env maze --agent delayed --delay 1 --set episodes=5"
    command += " --env-kwargs size=3"
    assert Result(record).command == command
    for found in (run("evaluate", tmp_path / spec.name), run("watch", tmp_path / spec.name)):
        assert found.returncode == 2
        assert "holds scores but no policies" in found.stderr
        assert f"train it with `{command}`" in found.stderr
    found = run(*command.split()[1:], "--out", tmp_path)
    assert found.returncode == 0
    assert f"{spec.name}" in "".join(found.stdout.split())
    assert run("evaluate", tmp_path / spec.name, "--episodes", "2").returncode == 0


@pytest.mark.slow
def test_reproduce_packs(tmp_path):
    found = run("reproduce", "tuning", "--seeds", "1", "--next", "2", "--out", tmp_path / "a")
    assert found.returncode == 0, found.stderr
    assert [path.name for path in (tmp_path / "a").glob("*.zip")] == ["maze.zip"]
    assert not [*(tmp_path / "a").glob("*/run.json")]
    assert len(records.names(tmp_path / "a")) == 2
    for name in records.names(tmp_path / "a"):
        record = records.read(tmp_path / "a" / name)
        assert record.policy_seeds == record.seeds
        assert record.id == runner.Result(record).spec.id
