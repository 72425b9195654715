"""The paper's records in this repository."""

from pathlib import Path

import pytest

from deadtime.runs import pack_archive, records
from deadtime.runs.result import Result
from deadtime.runs.units import KEPT_POLICY_BYTES
from deadtime.runtime import VIEWS

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def test_the_study_lies_in_packs():
    names = {path.name for path in RESULTS.iterdir() if not path.name.startswith(".")}
    assert {"maze.zip", "ceilings.json", "figures"} <= names
    assert not [*RESULTS.glob("*/run.json")]
    assert not pack_archive.unreadable(RESULTS)
    assert len(records.names(RESULTS)) > 600


def published(kept):
    """Return the study's records that keep a policy, or those that keep none."""
    found = {name: records.read(RESULTS / name) for name in records.names(RESULTS)}
    return {name: record for name, record in found.items() if bool(record.policy_seeds) == kept}


@pytest.mark.slow
def test_published_cells_keep_the_weights_of_their_first_seed():
    assert all(record.policy_seeds == record.seeds[:1] for record in published(True).values())
    for record in published(False).values():
        spec = Result(record).spec
        sees_queue = VIEWS[spec.agent].sees_queue
        large = spec.env == "maze" and sees_queue and spec.delay > 2  # a row for each visited queue
        networks = spec.family.name in ("atari", "gym")  # SAC's actor takes 350 KB
        assert large or networks, spec.name


@pytest.mark.full
def test_published_weights_act():
    for name in published(True):
        result = Result(records.read(RESULTS / name, policies=True))
        assert result.record.policy_bytes() <= KEPT_POLICY_BYTES
        spec, (seed,) = result.spec, result.replayed
        if spec.agent == "delayed" and getattr(spec.learner, "model", "") == "simulator":
            with pytest.raises(ValueError, match="can't act without its environment"):
                result.policy()
            continue
        policy = result.policy()
        env = spec.family.gymnasium_form(spec.environment(seed), spec.delay, policy)
        obs, info = env.reset(seed=0)
        for _ in range(3):
            action = policy.act(obs, info["pending_actions"])
            assert env.action_space.contains(action)
            obs, _, terminated, truncated, info = env.step(action)
            assert not terminated
            assert not truncated
