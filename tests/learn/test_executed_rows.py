"""Rows of executed actions in both loops, and what agents know of ages, against a plain log."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import deadtime
from deadtime.delays import (
    AgeStream,
    Constant,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
)
from deadtime.envs.local_pool import LocalPool
from deadtime.envs.pools import Played
from deadtime.learn import compiled_loop
from deadtime.learn.deep_q import transition
from deadtime.learn.host_programs import credited_turn
from deadtime.learn.host_turn import Turn
from deadtime.learn.lane_learner import LaneLearner
from deadtime.learn.learners import LEARNERS, Learner
from deadtime.learn.program import Program, Setup
from deadtime.learn.replay import Transition, layout_of, new_replay, store, transitions
from deadtime.runtime.views import VIEWS
from deadtime.wrappers.scalar import ACTIONS
from tests.commands import full
from tests.learn.diary import Diary, DiaryEnv

PROCESSES = [
    Uniform(0, 3),
    Uniform(1, 4),
    GilbertElliott(1, Uniform(2, 5), 0.2, 0.4),
    RandomWalk(0, 3, 0.6),
    PerEpisode(Uniform(0, 4)),
    Held(0, 4, hold=0.2, period=2),
    Trace([2, 0, 3, 1, 1, 4, 9], repeat=True),
]
"""The last two go back to older actions."""
STEPS = 300


class State(NamedTuple):
    updates: jax.Array


class Numbers(NamedTuple):
    """No setting differs between runs."""


class Recorder:
    """A learner that acts at random and keeps every row."""

    keys = ("explore", "environment")
    numbers = Numbers
    updates_once = False

    def actors(self, program):
        return 1

    def rollout(self, program):
        return 1

    def init(self, program, setup, key):
        return State(jnp.zeros((), jnp.int32))

    def new_replay(self, program):
        return new_replay(STEPS, layout_of(program))

    def new_memory(self, program):
        return ()

    def act(self, program, setup, state, actor, keys):
        if program.box is None:
            return jax.random.randint(keys["explore"], (), 0, 5), ()
        return jax.random.uniform(keys["explore"], (2,), minval=-2, maxval=2), ()

    def record(self, program, setup, state, actor, done):
        return transition(program, setup, actor, done)

    def update(self, program, setup, state, replay, kept, t, keys):
        item, valid = kept
        return State(state.updates + 1), store(replay, item, valid, layout_of(program))


@dataclass(frozen=True)
class Settings:
    kind: ClassVar[str] = "recorder"


RECORDER = Recorder()


@pytest.fixture(autouse=True)
def _recorder(monkeypatch):
    sees = "state", "queue", "prediction"
    entry = Learner(Settings, f"{__name__}:RECORDER", sees, None, projects=True)
    monkeypatch.setitem(LEARNERS, "recorder", entry)


def program_of(box, delay, room=0, lanes=1, agent="projected", observed="now"):
    """The program and the setup of a constant delay, or of a process."""
    varies = not isinstance(delay, int)
    longest = delay.longest if varies else delay
    process = delay if varies else None
    view = VIEWS[agent]
    program = Program(Diary(box), view, Settings(), max(longest, room), lanes, process, observed)
    setup = Setup(jax.random.key(3), jnp.int32(longest), (), jnp.int32(STEPS), (), view.code)
    return program, setup


class Step(NamedTuple):
    """One step of the log."""

    obs: np.ndarray
    chosen: np.ndarray
    age: int
    executed: np.ndarray
    reward: float
    after: np.ndarray
    terminated: bool
    next_age: int


def expected_rows(warm_up, steps, view, observed):
    """The rows of one episode, from its warm-up (oldest first) and its steps."""
    room = len(warm_up)
    knows = known_of(steps, observed)
    actions = [*warm_up, *(step.chosen for step in steps)]
    observations = [*(step.obs for step in steps), steps[-1].after]

    def decided(at):
        return observations[at], actions[at : at + room]

    rows = []
    done = set()
    for t, step in enumerate(steps):
        at = t - step.age
        np.testing.assert_array_equal(step.executed, actions[room + at])
        follows = t + 1 - step.next_age
        row = step.obs, step.executed, step.reward, step.after, step.terminated
        if view.credits == "chosen":
            chosen = step.obs, step.chosen, step.reward, step.after, step.terminated
            then = decided(t), knows[t]
            rows.append((*chosen, then, (decided(t + 1), knows[t + 1]), None, None))
        elif view.credits == "shifted":
            if at >= 0 and (follows >= 0 or step.terminated):
                then = step.after if step.terminated else observations[follows]
                shifted = observations[at], step.executed, step.reward, then, step.terminated
                rows.append((*shifted, None, None, None, follows != at))
        elif at >= 0 and not view.projects:
            rows.append((*row, None, None, None, follows != at))
        elif at >= 0 and (follows >= 0 or step.terminated):
            then = None if step.terminated else (decided(follows), knows[follows])
            rows.append((*row, (decided(at), knows[at]), then, at not in done, follows != at))
        done.add(at)
    return rows


def check(found: Transition, expected, shows_ages=False):
    assert (found.known is not None) == shows_ages
    if found.seen is None and found.queue.shape[1]:  # decided from the inputs of the values
        found = found._replace(seen=found.obs, seen_queue=found.queue)
        found = found._replace(next_seen=found.next_obs, next_seen_queue=found.next_queue)
    assert len(found.reward) == len(expected) > STEPS / 5
    for i, row in enumerate(expected):
        obs, action, reward, after, terminated, seen, then, first, fresh = row
        np.testing.assert_array_equal(found.obs[i], obs)
        np.testing.assert_array_equal(found.action[i], action)
        assert found.reward[i] == reward
        if not terminated:
            np.testing.assert_array_equal(found.next_obs[i], after)
        assert found.terminated[i] == terminated
        if seen is not None:
            (obs, queue), known = seen
            np.testing.assert_array_equal(found.seen[i], obs)
            np.testing.assert_array_equal(found.seen_queue[i].ravel(), np.ravel(queue))
            assert first is None or found.first[i] == first
            assert not shows_ages or found.known[i] == known
        if then is not None:
            (obs, queue), known = then
            np.testing.assert_array_equal(found.next_seen[i], obs)
            np.testing.assert_array_equal(found.next_seen_queue[i].ravel(), np.ravel(queue))
            assert not shows_ages or found.next_known[i] == known
        if not terminated and fresh is not None and found.fresh is not None:
            assert found.fresh[i] == fresh


def known_of(steps, observed):
    """What the agent knows before each step of an episode, and after the last: 1 + an age, or 0."""
    ages = [step.age for step in steps]
    if observed == "now":
        return [1 + age for age in (*ages, steps[-1].next_age)]
    return [0, *(1 + age for age in ages)] if observed == "hindsight" else [0] * (len(ages) + 1)


def compiled_rows(program, setup):
    """The rows that the compiled loop stored, and those of the log."""
    run = compiled_loop.begin(program, setup)

    def turn(run, t):
        now = compiled_loop.ahead(program, setup, t)
        actor = run.actors
        keys = compiled_loop.named_keys(program, now)
        chosen, _ = program.learner.act(program, setup, run.learner, actor, keys)
        done = []
        record = Recorder.record

        def recorded(self, program, setup, state, actor, step):
            done.append(step)
            return record(self, program, setup, state, actor, step)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Recorder, "record", recorded)
            after, _ = compiled_loop.turn(program, setup, run, now)
        (step,) = done
        return after, (actor.obs, actor.queue, actor.age, chosen, step, actor.known)

    run, log = jax.jit(partial(jax.lax.scan, turn))(run, jnp.arange(STEPS))
    log = jax.tree.map(np.asarray, log)
    episodes = []
    known = []
    for t in range(STEPS):
        obs, queue, age, chosen, done, knows = jax.tree.map(lambda leaf, t=t: leaf[t], log)
        if age == 0:
            episodes.append((list(queue), []))
        known.append(knows)
        ages = int(done.action_age), int(done.next_age)
        outcome = done.executed, done.reward
        step = Step(obs, chosen, ages[0], *outcome, done.obs, bool(done.terminated), ages[1])
        episodes[-1][1].append(step)
    rows = run.replay.rows[: run.replay.stored]
    if program.uses_ages:
        wanted = [known_of(steps, program.observed)[:-1] for _, steps in episodes]
        assert known == [one for each in wanted for one in each]
    each = [expected_rows(*episode, program.view, program.observed) for episode in episodes]
    expected = [row for rows in each for row in rows]
    return transitions(rows, layout_of(program)), expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("box", "delay"),
    [
        (True, Held(0, 4, hold=0.2, period=2)),
        *[full(box, delay) for box in (False, True) for delay in (0, 2, *PROCESSES)],
    ],
    ids=str,
)
def test_rows_of_the_compiled_loop(box, delay):
    found, expected = compiled_rows(*program_of(box, delay))
    check(found, expected, delay in PROCESSES)
    if delay in PROCESSES[-2:]:
        assert not found.first.all()
    elif delay in PROCESSES and not isinstance(delay, PerEpisode):
        assert not found.fresh.all()


@pytest.mark.full
@pytest.mark.parametrize("delay", [1, 3, 4])
def test_rows_under_a_delay_shorter_than_the_room_for_the_queue(delay):
    check(*compiled_rows(*program_of(True, delay, room=5)))


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [Constant(5), Uniform(1, 4), Constant(2)], ids=str)
def test_rows_of_an_agent_that_believes_in_a_constant(hidden):
    """Rows have the action chosen two steps before, whatever the channel executes."""
    program, setup = program_of(True, 2, room=5)
    found, expected = compiled_rows(replace(program, hidden=hidden), setup)
    check(found, expected)
    executed = found.next_obs[:, 2]  # the environment shows it
    assert (executed == found.action[:, 0]).all() == (hidden == Constant(2))
    if hidden == Constant(5):  # decided two steps ago, from a queue whose third action is of age 5
        np.testing.assert_array_equal(executed, found.seen_queue[:, 2, 0])


@pytest.mark.parametrize("runs", [None, 2])
def test_turns_of_agents_that_believe_in_a_constant(runs):
    """Each run's actions are those of its own belief, taken from the queue and the choice."""
    lead = (3,) if runs is None else (runs, 3)
    rng = np.random.default_rng(0)
    queue, chosen = rng.normal(size=(*lead, 5, 2)), rng.normal(size=(*lead, 2))
    blank = Played(*[np.zeros(lead)] * 10)
    turn = Turn(blank._replace(queue=queue), chosen, blank)
    program, setup = program_of(True, 2, room=5)
    delays = np.int32(2) if runs is None else np.array([0, 4], np.int32)
    setup = setup._replace(delay=jnp.asarray(delays))
    assert credited_turn(program, setup, turn) is turn
    found = credited_turn(replace(program, hidden=Constant(5)), setup, turn).after.executed
    for place in np.ndindex(lead):
        delay = delays if runs is None else delays[place[0]]
        wanted = chosen[place] if delay == 0 else queue[place][-delay]
        np.testing.assert_array_equal(found[place], wanted)


class Ages:
    """The ages of one lane, from a stream of its own."""

    def __init__(self, delay, seed):
        self.constant = delay if isinstance(delay, int) else None
        if self.constant is None:
            self.stream = AgeStream(delay, ACTIONS)
            self.stream.seed(seed)

    def start(self):
        return self.stream.start() if self.constant is None else self.constant

    def advance(self, ended):
        return self.stream.advance(ended) if self.constant is None else self.constant


def host_rows(box, delay, lanes, agent="projected", observed="now", **changes):
    """The rows that the host loop stored, and those of a log of the environments."""
    program, setup = program_of(box, delay, lanes=lanes, agent=agent, observed=observed)
    program = replace(program, **changes)
    learner = LaneLearner(program)
    envs = [deadtime.ActionDelay(DiaryEnv(box), delay) for _ in range(lanes)]
    pool = LocalPool(envs, range(lanes), "diary")
    state = learner.begin(program, setup)
    seen = pool.reset()
    state = learner.restart(program, state, seen, -1)
    actions, state = learner.choose(program, setup, state, seen, 0)
    ages = [Ages(delay, i) for i in range(lanes)]
    now = [one.start() for one in ages]
    warm_up = [list(queue) for queue in seen.queue]
    steps = [[] for _ in range(lanes)]
    expected = []
    for t in range(0, STEPS, lanes):
        pool.send(actions)
        before, chosen = seen, actions
        knows = np.asarray(state.actors.known)
        seen = pool.receive()
        for i in range(lanes):
            ended = bool(seen.terminated[i] or seen.truncated[i])
            age, now[i] = now[i], ages[i].advance(ended)
            outcome = seen.executed[i], seen.reward[i], seen.after[i], bool(seen.terminated[i])
            how = program.view, observed
            count = len(expected_rows(warm_up[i], steps[i], *how)) if steps[i] else 0
            steps[i].append(Step(before.shown[i], chosen[i], age, *outcome, now[i]))
            expected += expected_rows(warm_up[i], steps[i], *how)[count:]
            if program.uses_ages:
                assert knows[i] == known_of(steps[i], observed)[-2]
            if ended:
                steps[i] = []
                warm_up[i] = list(seen.queue[i])
                now[i] = ages[i].start()
        turn = Turn(before, chosen, seen)
        actions, state = learner.learn_and_choose(program, setup, state, turn, t + lanes)
    rows = state.replay.rows[: state.replay.stored]
    return transitions(rows, layout_of(program)), expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("box", "delay", "lanes"),
    [
        (False, Uniform(1, 4), 3),
        full(False, 0, 1),
        full(True, 3, 3),
        *[full(True, process, 2) for process in PROCESSES],
    ],
    ids=str,
)
def test_rows_of_the_host_loop(box, delay, lanes):
    check(*host_rows(box, delay, lanes), shows_ages=delay in PROCESSES)


KNOWING = [(PROCESSES[1], "now"), (PROCESSES[2], "hindsight"), (PROCESSES[5], "never")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("delay", "observed"),
    [KNOWING[1], *[full(*one) for one in (*KNOWING, *((each, "now") for each in PROCESSES))]],
    ids=str,
)
def test_rows_and_knowledge_of_an_agent_that_predicts(delay, observed):
    found, expected = compiled_rows(*program_of(False, delay, agent="delayed", observed=observed))
    check(found, expected)


@pytest.mark.full
@pytest.mark.parametrize(("delay", "observed"), [*KNOWING, (3, "now")], ids=str)
def test_rows_and_knowledge_of_an_agent_that_predicts_in_the_host_loop(delay, observed):
    check(*host_rows(False, delay, 3, "delayed", observed))


@pytest.mark.slow
@pytest.mark.parametrize("delay", [PROCESSES[-1], *[full(one) for one in (3, *PROCESSES[:-1])]])
def test_shifted_rows_join_the_decisions_of_two_executed_actions(delay):
    check(*compiled_rows(*program_of(False, delay, agent="shifted")))
    if not isinstance(delay, int):
        check(*host_rows(False, delay, 3, "shifted"))


SEEING = [(agent, *one) for agent in ("augmented", "projected") for one in KNOWING]
SEEING += [
    (agent, delay, observed)
    for agent in ("augmented", "projected")
    for delay in (PROCESSES[0], PROCESSES[3], PROCESSES[6])
    for observed in ("now", "hindsight")
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "delay", "observed"),
    [SEEING[1], *[full(*one) for one in (*SEEING[:1], *SEEING[2:])]],
    ids=str,
)
def test_rows_and_knowledge_of_an_agent_that_sees_the_queue(agent, delay, observed):
    """The log of a brute force has what the agent knew when it decided, and the next time."""
    program, setup = program_of(False, delay, agent=agent, observed=observed, room=5)
    check(*compiled_rows(program, setup), shows_ages=observed != "never")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "delay", "observed"),
    [SEEING[3], *[full(*one) for one in (*SEEING[:3], *SEEING[4:])]],
    ids=str,
)
def test_rows_and_knowledge_in_the_host_loop_of_an_agent_that_sees_the_queue(
    agent, delay, observed
):
    check(*host_rows(False, delay, 3, agent, observed), shows_ages=observed != "never")


@pytest.mark.parametrize("agent", ["augmented", "projected"])
@pytest.mark.parametrize("delay", [3, *PROCESSES[:2]], ids=str)
def test_rows_without_known_ages_have_their_former_parts(agent, delay):
    """They have no ages under a constant delay, and none if ages are never observed."""
    never, _ = program_of(False, delay, agent=agent, observed="never")
    assert not {"known", "next_known"} & {*layout_of(never).parts}
    now, _ = program_of(False, delay, agent=agent)
    more = [*layout_of(now).parts][len(layout_of(never).parts) :]
    assert more == ([] if delay == 3 else ["known", "next_known"])
