"""Memory is known before training starts, and checked."""

import jax
import pytest

import deadtime
from deadtime.learn import compiled_groups, memory
from deadtime.learn.compiled_loop import begin_all
from deadtime.runs.deep_specs import DeepSpec


@pytest.mark.slow
def test_the_estimate_is_what_the_state_takes_and_linear_in_runs():
    spec = DeepSpec("cartpole", "augmented", 5)
    program, sizes = compiled_groups.program_of(spec, "cpu"), []
    for runs in (1, 3):
        setups = compiled_groups.setups_of([(spec, seed) for seed in range(runs)], runs)
        sizes.append(sum(leaf.nbytes for leaf in jax.tree.leaves(begin_all(program, setups))))
        assert memory.bytes_a_run(begin_all, program, setups) * runs == sizes[-1]
    assert sizes[1] == 3 * sizes[0]
    assert sizes[0] > 4 * 50_000 * (2 * 4 + 3 + 5)


@pytest.mark.slow
@pytest.mark.skipif(jax.default_backend() == "gpu", reason="a GPU says itself what is free")
def test_too_much_is_refused_before_it_starts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "free_memory", lambda: 20e6)
    few = deadtime.train("cartpole", steps=10, preset="paper", evaluation_episodes=1)
    assert few.untrained == [0]
    with pytest.raises(
        MemoryError, match=r"runs at once need .* GiB; 0.0168 GiB are free: train fewer seeds"
    ):
        deadtime.train("cartpole", steps=10**6, seeds=8, buffer_size=10**6)


def test_programs_in_the_cache_are_noted(tmp_path):
    before = jax.config.jax_compilation_cache_dir
    one, same, other = (
        compiled_groups.program_of(DeepSpec("cartpole", agent, delay), "cpu")
        for agent, delay in (("delayed", 3), ("delayed", 4), ("oblivious", 3))
    )
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
        assert not memory.has_compiled(one)
        memory.note_compiled(one)
        assert memory.has_compiled(one)
        assert memory.has_compiled(same)
        assert not memory.has_compiled(other)
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


def test_a_users_choice_of_cache_stays(monkeypatch, tmp_path):
    before = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
        memory.keep_compiled()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine")
        jax.config.update("jax_compilation_cache_dir", None)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        memory.keep_compiled()
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "deadtime")
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
