"""Fixtures: records, packs, and a module that no record may import."""

import pytest

import deadtime
from deadtime.runs import packs, records


@pytest.fixture(scope="session")
def trained():
    """Return a record of each kind of tabular policy, by agent."""
    return {
        agent: deadtime.train("maze", agent, 2, seeds=2, size=3, episodes=20).record
        for agent in ("augmented", "delayed", "distribution")
    }


@pytest.fixture
def folder(trained, tmp_path):
    """Return the folder of a record of the augmented agent."""
    return records.write(tmp_path / "record", trained["augmented"])


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """Return a folder that the examples of a test share."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def evil(tmp_path, marker, monkeypatch):
    """Return the name of an environment in a module that creates `marker` when it is imported."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "evil_module.py").write_text(f"import os\nos.mkdir({str(marker)!r})\n")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    return "gym:evil_module:CartPole-v1"


@pytest.fixture(scope="session")
def originals(tmp_path_factory):
    """Return four records of two families, by name."""
    small = {"size": 3, "episodes": 5}
    found = [
        deadtime.train("maze", agent, 1, seeds=2, **small) for agent in ("delayed", "oblivious")
    ]
    found.append(deadtime.train("noisy-maze", "oblivious", 0, **small))
    found.append(deadtime.train("walk", "delayed", 1, episodes=5, length=5))
    folder = tmp_path_factory.mktemp("originals")
    for result in found:
        result.save(folder / result.spec.name)
    return {
        result.spec.name: records.read(folder / result.spec.name, policies=True) for result in found
    }


@pytest.fixture
def root(originals, tmp_path):
    """Return a folder with the four records, each in a folder."""
    folder = tmp_path / "root"
    for name, record in originals.items():
        records.write(folder / name, record)
    return folder


@pytest.fixture
def packed(root):
    """Return a folder with the four records, packed."""
    packs.pack(root)
    return root
