import copy
import pickle
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from deadtime.delays.convention import check_delay, push
from deadtime.delays.nested import map_leaves
from deadtime.delays.pending import PendingActions
from deadtime.delays.warm_up import WarmUp

ACTION_SPACES = [
    spaces.Discrete(5),
    spaces.Discrete(4, start=-2),
    spaces.Discrete(200, dtype=np.uint8),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Dict(turn=spaces.Discrete(3), speed=spaces.Box(0, 1, (2,), np.float64)),
    spaces.Tuple((spaces.Discrete(2), spaces.Dict(a=spaces.MultiBinary(2)))),
]


@pytest.mark.slow
@given(st.integers(0, 9), st.lists(st.integers(0, 4), max_size=40))
@settings(deadline=None)
def test_three_queues_are_one_rule(delay, chosen):
    """Chosen at t, executed at t + m: by the pure function on NumPy, on JAX in a scan, and by the
    host queue.
    """
    start = np.arange(delay) % 5
    expected = [*start.tolist(), *chosen]

    queue, executed = start, []
    for action in chosen:
        now, queue = push(queue, action)
        executed.append(int(now))
    assert executed == expected[: len(chosen)]
    assert queue.tolist() == expected[len(chosen) :]

    host = PendingActions(spaces.Discrete(5), delay)
    host.fill(start)
    assert [host.push(action)[0] for action in chosen] == executed
    assert host.actions.tolist() == queue.tolist()

    scanned, out = jax.lax.scan(
        lambda q, a: push(q, a)[::-1], jnp.asarray(start, jnp.int32), jnp.asarray(chosen, jnp.int32)
    )
    assert out.tolist() == executed
    assert scanned.tolist() == queue.tolist()


def test_push_under_jit_and_vmap():
    queues = jnp.arange(6).reshape(3, 2)
    executed, after = jax.jit(jax.vmap(push))(queues, jnp.array([7, 8, 9]))
    assert executed.tolist() == [0, 2, 4]
    assert after.tolist() == [[1, 7], [3, 8], [5, 9]]


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("delay", [0, 1, 2, 7])
def test_host_queue_holds_any_action(space, delay):
    space.seed(0)
    first, later = [space.sample() for _ in range(delay)], [space.sample() for _ in range(30)]
    queue = PendingActions(space, delay)
    queue.fill(WarmUp(lambda obs, m, rng: first, space, delay).draw(None))
    for t, action in enumerate(later):
        executed, pending = queue.push(action)
        for wanted, got in zip(
            _leaves(space, (first + later)[t]), _leaves(space, executed), strict=True
        ):
            np.testing.assert_array_equal(wanted, got)
        for i in range(delay):
            row = map_leaves(lambda leaf, i=i: leaf[i], space, pending)
            for wanted, got in zip(
                _leaves(space, (first + later)[t + 1 + i]), _leaves(space, row), strict=True
            ):
                np.testing.assert_array_equal(wanted, got)


def _leaves(space, value):
    found = []
    map_leaves(found.append, space, value)
    return found


@pytest.mark.parametrize("space", ACTION_SPACES, ids=str)
@pytest.mark.parametrize("twin", [lambda queue: queue, copy.deepcopy], ids=["itself", "copied"])
def test_snapshots_stay_as_they_were_and_are_read_only_and_share_no_memory(space, twin):
    space.seed(0)
    queue = PendingActions(space, 3)
    queue.fill(WarmUp("random", space, 3).draw(None))
    queue = twin(queue)
    snapshots = [queue.actions, *(queue.push(space.sample())[1] for _ in range(6))]
    before = copy.deepcopy(snapshots)
    for _ in range(10):
        queue.push(space.sample())
    for was, now in zip(before, snapshots, strict=True):
        for wanted, leaf in zip(_leaves(space, was), _leaves(space, now), strict=True):
            np.testing.assert_array_equal(wanted, leaf)
            assert not leaf.flags.writeable
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                leaf.setflags(write=True)
    for one, other in combinations(snapshots, 2):
        for a, b in zip(_leaves(space, one), _leaves(space, other), strict=True):
            assert not np.shares_memory(a, b)


@pytest.mark.parametrize("space", [spaces.Discrete(10), spaces.Box(0, 9, (1,), np.int64)])
def test_executed_actions_over_many_steps(space):
    queue = PendingActions(space, 3)
    queue.fill(np.array([7, 8, 9]).reshape(3, *space.shape))
    chosen = [(t * t) % 10 for t in range(10_000)]
    executed = [
        int(np.asarray(queue.push(np.full(space.shape, action))[0]).item()) for action in chosen
    ]
    assert executed == [7, 8, 9, *chosen[:-3]]


def test_push_refuses_to_round():
    with pytest.raises(
        ValueError,
        match="an action must be of the queue's type, int32; got float32: pass a whole number",
    ):
        push(jnp.zeros(2, jnp.int32), 1.9)


def test_an_executed_array_is_not_the_queues_memory():
    queue = PendingActions(spaces.Box(-1, 1, (2,)), 1)
    queue.fill(np.zeros((1, 2)))
    mine = np.ones(2, np.float32)
    _, pending = queue.push(mine)
    mine[:] = 5
    executed, _ = queue.push(np.zeros(2))
    executed[:] = 7
    np.testing.assert_array_equal(executed, [7, 7])
    np.testing.assert_array_equal(pending, [[1, 1]])


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda queue: pickle.loads(pickle.dumps(queue))]
)
def test_copies_go_their_own_way(twin):
    queue = PendingActions(spaces.Discrete(9), 2)
    queue.fill([1, 2])
    queue.push(3)
    other = twin(queue)
    queue.push(4)
    assert [other.push(5)[0], other.push(6)[0], other.push(7)[0]] == [2, 3, 5]
    assert queue.actions.tolist() == [3, 4]


@pytest.mark.parametrize("action", [5, -1, 0.7, "left", None, np.array([1]), [1]])
def test_an_impossible_action_is_refused_when_it_is_chosen(action):
    queue = PendingActions(spaces.Discrete(5), 3)
    queue.fill([0, 1, 2])
    with pytest.raises(
        ValueError, match=r"must lie in the action space Discrete\(5\); got .*checked now"
    ):
        queue.push(action)
    assert queue.push(4)[0] == 0, "a refused action leaves the queue as it was"
    assert queue.actions.tolist() == [1, 2, 4]


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Box(-1, 1, (2,)), np.zeros(3)),
        (spaces.Box(-1, 1, (2,)), 0.0),
        (spaces.MultiDiscrete([2, 3]), [1, 3]),
        (spaces.MultiDiscrete([2, 3]), [0.5, 1.0]),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}),
        (spaces.Dict(a=spaces.Discrete(2)), 1),
        (spaces.Tuple((spaces.Discrete(2),)), (1, 1)),
        (spaces.Box(-1, 1, (2,)), [np.nan, 0]),
        (spaces.Box(-1, 1, (1,)), np.array(["x"])),
        (spaces.Box(0, 255, (2,), np.uint8), [300, 1]),
        (spaces.Box(0, 9, (1,), np.int64), [3.9]),
    ],
    ids=str,
)
def test_impossible_structured_actions_are_refused(space, action):
    queue = PendingActions(space, 1)
    queue.fill(WarmUp("random", space, 1).draw(None))
    before = _leaves(space, queue.actions)
    with pytest.raises(ValueError, match="must lie in the action space"):
        queue.push(action)
    for was, now in zip(before, _leaves(space, queue.actions), strict=True):
        np.testing.assert_array_equal(was, now)


def test_box_bounds_are_the_environments_business():
    queue = PendingActions(spaces.Box(-1, 1, (2,)), 0)
    np.testing.assert_array_equal(queue.push([3, -np.inf])[0], [3, -np.inf])


RANDOM = "pass one number, such as the longest delay"

SECONDS = "for seconds, deadtime.delays.Seconds(0.5, step)"


@pytest.mark.parametrize(
    ("delay", "remedy"),
    [
        (-1, "pass 0 for no delay"),
        (-1.5, "pass 0 for no delay"),
        (float("nan"), "pass 0 for no delay"),
        (float("inf"), "pass 0 for no delay"),
        ("3", "pass 0 for no delay"),
        (None, "pass 0 for no delay"),
        (True, "pass 0 for no delay"),
        (2.5, "pass a whole number, such as 3"),
        (2.0, "pass a whole number, such as 2"),
        (np.float32(0.5), "pass a whole number, such as 1; " + SECONDS),
        ((2, 6), RANDOM),
        ([2, 6], RANDOM),
        (range(2, 6), RANDOM),
        (max, RANDOM),
        (np.random.default_rng(0), RANDOM),
    ],
    ids=str,
)
def test_bad_delay(delay, remedy):
    with pytest.raises(ValueError) as error:
        check_delay(delay)
    assert (
        str(error.value) == f"delay is a whole number of steps, 0 or more; got {delay!r}: {remedy}"
    )


@pytest.mark.parametrize("delay", [2**31, 2**40, 10**20, np.uint64(2**63)])
def test_absurd_delay(delay):
    with pytest.raises(ValueError) as error:
        check_delay(delay)
    assert (
        str(error.value) == "delay is a whole number of steps, at most 2147483647; "
        f"got {delay!r}: pass a smaller one"
    )
    assert check_delay(2**31 - 1) == 2**31 - 1


def test_a_queue_that_does_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("deadtime.delays.convention.free_memory", lambda: 1e9)
    PendingActions(spaces.Discrete(5), 10**6)
    message = (
        "a queue of pending actions must fit in memory; got a delay of 30000000, "
        r"which needs 3.0 GB with 1.0 GB free: pass a smaller delay"
    )
    with pytest.raises(ValueError, match=message):
        PendingActions(spaces.Discrete(5), 30_000_000)
    with pytest.raises(
        ValueError, match="got a delay of 1000000, which needs 2.0 GB with 1.0 GB free"
    ):
        PendingActions(spaces.Box(-1, 1, (4, 5)), 10**6)


@pytest.mark.parametrize("warmup", [5, -1, 0.5, [0], None])
def test_warmup_action_outside_the_space(warmup):
    with pytest.raises(
        ValueError,
        match=r"warm-up action must lie in the action space Discrete\(5\); got .*choose one inside",
    ):
        WarmUp(warmup, spaces.Discrete(5), 2)


def test_warmup_action_outside_a_box():
    with pytest.raises(ValueError, match="must lie in the action space Box"):
        WarmUp(np.array([2.0, 0.0]), spaces.Box(-1, 1, (2,)), 2)


def test_warmup_word_that_is_none():
    with pytest.raises(ValueError, match="got 'rnadom': did you mean \"random\""):
        WarmUp("rnadom", spaces.Discrete(5), 2)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([1], r"as many actions as the delay, 2; got \[1\]"),
        (1, "2; got 1: return"),
        (None, "2; got None: return"),
        ([1, 9], "each action that a warm-up callable"),
    ],
)
def test_warmup_callable_that_returns_nonsense(actions, message):
    with pytest.raises(ValueError, match=message):
        WarmUp(lambda obs, delay, rng: actions, spaces.Discrete(5), 2).draw(None)


def test_actions_that_no_queue_can_hold():
    with pytest.raises(ValueError, match="got Text.*wrap the environment"):
        WarmUp("random", spaces.Text(4), 1)


def test_seeded_warmups():
    first, second = (
        WarmUp("random", spaces.Discrete(1000), 6),
        WarmUp("random", spaces.Discrete(1000), 6),
    )
    first.seed(3), second.seed(3)
    assert first.draw(None).tolist() == second.draw(None).tolist()
    assert first.draw(None).tolist() == second.draw(None).tolist()
    second.seed(4)
    assert first.draw(None).tolist() != second.draw(None).tolist()


def test_seeded_warmups_are_apart_from_the_environments_own_numbers():
    """A space or environment seeded with the same number would otherwise draw the same stream."""
    warmup = WarmUp("random", spaces.Discrete(10**6), 4)
    warmup.seed(0)
    twin = spaces.MultiDiscrete([10**6] * 4, seed=0)
    assert warmup.draw(None).tolist() != twin.sample().tolist()
