import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

from deadtime.cli.planned import load
from deadtime.planning import MDP, solve
from deadtime.planning.examples import random_mdp

P = np.full((2, 3, 2), 0.5)
R = np.zeros((2, 3))


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("P", "r", "gamma", "message"),
    [
        (
            changed(P, (1, 2, 0), 0.47),
            R,
            0.9,
            r"P\[1, 2\] sums to 0.97, not 1: divide it by its sum, in float64, or pass check=False",
        ),
        (
            changed(P, (0, 1, 1), np.nan),
            R,
            0.9,
            r"P\[0, 1, 1\] is nan: probabilities are finite and not negative",
        ),
        (changed(changed(P, (1, 0, 0), -0.5), (1, 0, 1), 1.5), R, 0.9, r"P\[1, 0, 0\] is -0.5"),
        (P, changed(R, (1, 2), np.inf), 0.9, r"r\[1, 2\] is inf: rewards are finite numbers"),
        (P[:, :2], R, 0.9, r"P has shape \(2, 3, 2\) when r has shape \(2, 3\); got \(2, 2, 2\)"),
        (P, R[0], 0.9, r"r has shape \(S, A\).*got \(3,\)"),
        (P, R, 1.2, r"gamma lies in \[0, 1\]; got 1.2: choose a discount such as 0.95"),
        (P, R, np.nan, r"gamma lies in \[0, 1\]; got nan"),
        (
            csr_array(np.ones((2, 2))),
            R,
            0.9,
            r"P has shape \(6, 2\) when r has shape \(2, 3\); got \(2, 2\)",
        ),
    ],
)
def test_what_is_wrong_is_named(P, r, gamma, message):
    with pytest.raises(ValueError, match=message):
        MDP(P, r, gamma)


def test_dense_and_sparse_are_the_same_problem():
    dense = random_mdp(np.random.default_rng(0), 5, 2, 0.9, 2)
    sparse = MDP(csr_array(dense.dense.reshape(10, 5)), dense.r, 0.9)
    np.testing.assert_array_equal(dense.dense, sparse.dense)
    np.testing.assert_allclose(solve(dense, 3).values, solve(sparse, 3).values)


def test_check_can_be_left_out():
    assert MDP(P * 0.9, R, 0.9, check=False).states == 2


def test_arguments_are_copied():
    mine = R.copy()
    mdp = MDP(P, mine, 0.9)
    mine[0, 0] = 9
    assert mdp.r[0, 0] == 0


def test_sparse_arguments_are_left_as_they_were():
    given = csr_array(
        (np.array([0.5, 0.5, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2)
    )
    before = given.data.copy()
    assert MDP(given, [[1.0], [0.0]], 0.9).dense[0, 0, 0] == 1
    assert (given.data == before).all()


def test_whole_numbers_are_checked_before_they_take_memory(tmp_path):
    """A file of 0.6 MB took 5.3 GiB: all of it was converted to doubles first."""
    states = 1500
    P = np.zeros((states, 2, states), np.uint8)
    P[:, :, 0] = 1
    np.savez_compressed(tmp_path / "good.npz", P=P, r=np.zeros((states, 2)), gamma=0.9)
    P[:] = 1
    np.savez_compressed(tmp_path / "bad.npz", P=P, r=np.zeros((states, 2)), gamma=0.9)
    tracemalloc.start()
    try:
        assert load(tmp_path / "good.npz").P.nnz == 2 * states
        with pytest.raises(
            ValueError, match=r"P\[0, 0\] sums to 1500, not 1: divide it by its sum"
        ):
            load(tmp_path / "bad.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * P.nbytes


def test_an_mdp_must_fit(tmp_path, monkeypatch):
    P = np.full((40, 1, 40), 1 / 40)
    np.savez(tmp_path / "mdp.npz", P=P, r=np.zeros((40, 1)), gamma=0.9)
    monkeypatch.setattr("deadtime.cli.planned.free_memory", lambda: 100_000.0)
    with pytest.raises(
        ValueError,
        match=r"half of the free memory, .* GiB; .*mdp.npz would take .* GiB: use fewer states",
    ):
        load(tmp_path / "mdp.npz")
