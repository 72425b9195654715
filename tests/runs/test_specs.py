"""Specs in records: they import no module without consent, and forged ones are refused."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import deadtime
from deadtime.cli.main import main
from deadtime.runs import records, sweep_file
from deadtime.runs.record import Record
from deadtime.runs.record_format import from_bytes, to_bytes
from deadtime.runs.result import Result
from deadtime.runs.specs import from_canonical
from deadtime.studies.report import page
from tests.forgery import forge, refused, spec_of


@pytest.mark.slow
def test_no_module_is_imported(evil, folder, trained, tmp_path):
    """No form of a record imports a module, and no sweep does without consent."""
    why = "a file can't import modules by itself; this one needs 'evil_module': if you trust it, "
    why += "import it first, or set "
    spec = from_canonical(spec_of(evil, "deep"))
    forge(folder, spec=spec.canonical(), id=spec.id)
    result = Result(records.read(folder))
    assert result.spec == spec
    assert evil in page(folder.parent, "")
    refused(lambda: deadtime.load(folder), "train it again")
    refused(lambda: result.spec.environment(0), re.escape(f"{why}DEADTIME_IMPORT=evil_module"))
    for command in ("evaluate", "watch"):
        with pytest.raises(SystemExit, match="2"):
            main([command, str(folder)])
    (unpacked,) = from_bytes(
        to_bytes([replace(trained["delayed"], spec=spec.canonical(), id=spec.id)])
    )
    refused(lambda: Result(unpacked).spec.environment(0), why)
    (tmp_path / "x.toml").write_text(f'environments = ["{evil}"]')
    why = f"x.toml, line 1: {why}DEADTIME_IMPORT=evil_module, or pass --allow-import evil_module$"
    refused(lambda: sweep_file.read(tmp_path / "x.toml"), why)


def test_modules_that_are_trusted(evil, folder, marker, monkeypatch):
    forge(folder, spec=spec_of(evil, "deep"))
    monkeypatch.setitem(sys.modules, "evil_module", sys)
    assert records.read(folder).seeds == [0, 1]
    monkeypatch.delitem(sys.modules, "evil_module")
    monkeypatch.setenv("DEADTIME_IMPORT", "other,evil_module")
    with pytest.raises(ValueError, match="this record is outdated"):
        Result(records.read(folder)).spec  # noqa: B018
    assert not marker.exists(), "reading a record imports no module"
    from_canonical(spec_of(evil, "deep")).environment(0)
    marker.rmdir()  # the module ran, which was allowed


SPECS = [
    {},
    spec_of(5),
    spec_of("nowhere"),
    spec_of("../../x"),
    spec_of("gym:../../x"),
    spec_of("gymnax:../../x"),
    spec_of("atari:../../x", "deep"),
    spec_of(["maze"], "deep"),
    spec_of(agent="../../x"),
    spec_of(agent=[]),
    spec_of(delay="2"),
    spec_of(delay=10**9),
    spec_of(episodes=-1),
    spec_of(settings=[]),
    spec_of(settings={"size": 10**6}),
    spec_of(settings={"size": "10"}),
    spec_of(settings={"mro": 5}),
    spec_of("walk", settings={"length": 10**6}),
    spec_of(learner={"step_size": 10**400}),
    spec_of(learner=[1]),
    spec_of(until_return=[]),
    spec_of(nonsense=1),
    spec_of("cartpole", "deep", changes=[]),
    spec_of("cartpole", "deep", changes={"hidden": "x"}),
    spec_of("cartpole", "deep", changes={"learning_rate": 10**400}),
    spec_of("cartpole", "deep", preset="../../x"),
    spec_of("cartpole", "deep", preset=[]),
    spec_of("cartpole", "deep", evaluation_delays=5),
    spec_of("cartpole", "deep", learner={}),
    spec_of("cartpole", "deep", recorded=False),
    spec_of("gym:../../x", "deep"),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec)[:80])
def test_specs_that_name_no_run(spec, tmp_path):
    refused(lambda: from_canonical(spec))
    refused(
        lambda: (
            Result(
                Record("", spec, [], [], [], [], [], [], np.zeros(0, int), np.zeros((0, 0)))
            ).spec
        )
    )


@pytest.mark.parametrize("settings", [{"id": "x"}, {"render_mode": "human"}])
def test_specs_that_can_be_read_and_not_run(settings):
    spec = from_canonical(spec_of("gym:CartPole-v1", "deep", settings=settings))
    refused(lambda: spec.environment(0), next(iter(settings)))
    refused(lambda: replace(spec), next(iter(settings)))


def test_games_have_plain_names_without_the_emulator_too(monkeypatch):
    monkeypatch.setattr("deadtime.envs.atari.games.installed", lambda: False)
    assert from_canonical(spec_of("atari:MsPacman", "deep")).env == "atari:MsPacman"
    refused(lambda: from_canonical(spec_of("atari:\x1b[2J<b>", "deep")), "Atari has no game")
