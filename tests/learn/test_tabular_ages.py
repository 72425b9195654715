"""Tabular agents under delays that vary, against a plain loop with a log, and against exact
answers.
"""

from bisect import bisect_right

import gymnasium as gym
import numpy as np
import pytest

import deadtime
from benchmarks.plain import Plain, Stream
from deadtime.delays import (
    Buffered,
    Constant,
    GilbertElliott,
    Held,
    PerEpisode,
    RandomWalk,
    Trace,
    Uniform,
)
from deadtime.delays.waits import waits_of
from deadtime.envs.maze_layout import carve, finite
from deadtime.learn.settings import QLearning
from deadtime.learn.tabular_q import new_agent, run_episodes, to_arrays
from deadtime.planning import MDP, solve
from deadtime.runs.specs import from_canonical, make_spec
from deadtime.runtime import Manifest, TablePolicy
from deadtime.runtime.views import VIEWS
from deadtime.wrappers.knowledge import AgeKnowledge

PROCESSES = [
    Uniform(1, 4),
    Uniform(0, 3, in_order=False),
    RandomWalk(0, 3, 0.6),
    GilbertElliott(1, Uniform(2, 5), 0.2, 0.4),
    PerEpisode(Uniform(1, 3)),
    Trace([3, 1, 1, 2, 3], repeat=True),
    Held(0, 3, hold=0.2, period=2),
]
OBSERVED = ("now", "hindsight", "never")
SETTINGS = QLearning(0.3, 0.95, epsilon=0.2)


def streams(seed=0):
    return np.random.SeedSequence([seed, 0]).generate_state(3, np.uint64)


def trained(name, process, observed, env, episodes, settings=SETTINGS):
    agent = new_agent(env, VIEWS[name], process, observed)
    return run_episodes(env, agent, settings, streams(), episodes, learn=True)


def policy_of(name, agent, env, process, observed):
    arrays = to_arrays(agent)
    sizes = {"states": len(env.terminal), "actions": arrays["q"].shape[1]}
    about = Manifest(
        name, VIEWS[name].sees, agent.delay, process=process, observed=observed, **sizes
    )
    return TablePolicy(about, arrays)


class Logged(Plain):
    """The plain loop with a log of all that was chosen; step t executes `log[t - age]`."""

    def __init__(self, env, view, process, observed, numbers):
        world, explorer, ages = streams()
        super().__init__(env, view, process.longest, (world, explorer), *numbers)
        self.process, self.observed = process, observed
        self.knowledge = AgeKnowledge(process, observed)
        self.waits = waits_of(process, observed, likely=True, every=view.sees == "law")
        self.ages = Stream(ages)
        self.held = 0

    def move(self, state):
        tables = self.process.chain.host_tables
        place = 0
        if tables.width > 1:
            first = state * (tables.width - 1)
            row = tables.cumulative[first : first + tables.width - 1]
            place = bisect_right(row, self.ages.uniform())
        return tables.successors[state * tables.width + place]

    def start(self):
        tables = self.process.chain.host_tables
        place = 0
        if tables.first_cumulative:
            place = bisect_right(tables.first_cumulative, self.ages.uniform())
        return tables.first[place]

    def seen_with(self, state, log, info):
        """What the table has as its key: what the agent knows and may still be executed."""
        known = info.get("action_age")
        if self.view.sees == "queue":
            pending = log[len(log) - info["pending_count"] :]
            return (state, -1 if known is None else known, *pending)
        if self.view.sees == "prediction":
            for action in self.on_the_way(log, info, 0):
                state = self.likely.get((state, action), state)
        return state

    def on_the_way(self, log, info, way):
        row = 1 + info.get("action_age", -1)
        ages = self.waits.ages[row, way, : self.waits.steps[row, way]]
        return [log[len(log) + j - age] for j, age in enumerate(ages.tolist())]

    def values_of(self, state, seen, log, info):
        if self.view.sees != "law":
            return self.values(seen)
        values = np.zeros(self.actions)
        for way, weight in enumerate(self.waits.weights[1 + info.get("action_age", -1)]):
            if weight:
                for s, chance in self.law(state, self.on_the_way(log, info, way)).items():
                    values += weight * chance * self.values(s)
        return values

    def chosen(self, values):
        u = self.explorer.uniform()
        if u < self.epsilon:
            return min(int(u / self.epsilon * self.actions), self.actions - 1)
        best = np.flatnonzero(values == values.max())
        place = int((u - self.epsilon) / (1 - self.epsilon) * len(best))
        return int(best[min(place, len(best) - 1)])

    def learn_shifted(self, sees, action, reward, ended, t, ages):
        """Learn at the decision of an action, from that of the next executed one."""
        at, after = t - ages[0], t + 1 - ages[1]
        if at < 0 or (after < 0 and not ended):
            return
        values = self.values(sees[at])
        target = reward
        if not ended and after == at:
            target += self.discount * values[action]
        elif not ended:
            target += self.discount * self.values(sees[after]).max()
        values[action] += self.step_size * (target - values[action])

    def episode(self):
        longest = self.process.longest
        log = [int(self.world.uniform() * self.actions) for _ in range(longest)]
        state, earned, ended, t = self.start_state(), 0.0, False, 0
        sees, executed = [], set()
        channel = self.start()
        age = int(self.process.chain.ages[channel])
        info = self.knowledge.at_reset(age)
        seen = self.seen_with(state, log, info)
        while not ended and t < self.env.max_steps:
            log.append(self.chosen(self.values_of(state, seen, log, info)))
            place = longest + t - age
            after, reward, ended = self.step(state, log[place])
            if self.view.predicts:
                self.observe(state, log[place], after)
            channel = self.move(channel)
            later = int(self.process.chain.ages[channel])
            info = self.knowledge.after_step(age, later)
            then = None if ended else self.seen_with(after, log, info)
            sees.append(seen)
            if self.view.projects and not ended:
                self.values(then)  # the next decision has a row, even if the episode ends here
            if self.view.credits == "chosen":
                self.learn(seen, log[-1], reward, then, ended)
            elif place >= longest and self.view.projects:
                again = longest + t + 1 - later
                target = reward
                if not ended and (again == place or again < longest):
                    target += self.discount * self.of_state(after)[log[again]]
                elif not ended:
                    best = self.projected([*sees, then][again - longest], after)
                    target += self.discount * self.of_state(after)[best]
                decided = None if place in executed else sees[place - longest]
                executed.add(place)
                self.project(decided, state, log[place], target)
            elif self.view.credits == "shifted":
                self.learn_shifted([*sees, then], log[place], reward, ended, t, (age, later))
            elif place >= longest:  # it was chosen in this episode
                again = longest + t + 1 - later == place and not ended
                self.held += again
                best = self.values(after)[log[place]] if again else self.values(after).max()
                target = reward if ended else reward + self.discount * best
                values = self.values(state)
                values[log[place]] += self.step_size * (target - values[log[place]])
            earned += reward
            state, seen, age = after, then, later
            t += 1
        return earned, t


@pytest.mark.slow
@pytest.mark.parametrize("observed", OBSERVED)
@pytest.mark.parametrize("process", PROCESSES, ids=lambda one: one.kind)
@pytest.mark.parametrize(
    "name", ["augmented", "projected", "oblivious", "shifted", "delayed", "distribution"]
)
def test_bit_by_bit_as_a_plain_loop_with_a_log(name, process, observed):
    env, episodes = finite(carve(4, 3), 0.3), 6
    agent, returns = trained(name, process, observed, env, episodes)
    plain = Logged(env, VIEWS[name], process, observed, (0.3, 0.95, 0.2))
    expected = [plain.episode()[0] for _ in range(episodes)]
    np.testing.assert_array_equal(returns, np.float32(expected))
    policy = policy_of(name, agent, env, process, observed)
    within = 1e-12 if name == "distribution" else 0  # its law is summed in another order
    for seen, values in plain.q.items():
        if not VIEWS[name].sees_queue:
            np.testing.assert_allclose(agent.table.q[seen], values, rtol=within, atol=within)
            continue
        state, known, *pending = seen
        queue = [1] * (process.longest - len(pending)) + pending
        found = policy.q_values(state, queue, None if observed == "never" else known)
        np.testing.assert_array_equal(found, values)
    if VIEWS[name].sees_queue:
        assert len(plain.q) == agent.table.used[0] - 1
    for state, values in plain.states.items():
        np.testing.assert_array_equal(agent.values[state], values)
    if name == "delayed" and process.chain.in_order and process.kind != "episode":
        assert plain.held > 0


@pytest.mark.parametrize("name", ["augmented", "projected", "delayed", "distribution"])
@pytest.mark.parametrize("observed", OBSERVED)
def test_the_policy_chooses_what_training_would(name, observed):
    """Greedy episodes of the compiled code and of the policy in Gymnasium, step by step."""
    process = RandomWalk(1, 4)
    env = finite(carve(4, 3), 0.0)
    agent, _ = trained(name, process, observed, env, 400)
    policy = policy_of(name, agent, env, process, observed)
    assert policy.sees_ages == (observed != "never")
    maze = gym.make("deadtime/Maze-v0", size=4, maze_seed=3)
    late = deadtime.ActionDelay(maze, process, observed=observed)
    plain = Logged(env, VIEWS[name], process, observed, (0.0, 0.95, 0.0))
    if VIEWS[name].sees_queue:
        plain.values = lambda seen: policy.q_values(
            seen[0],
            [0] * (4 - len(seen[2:])) + [*seen[2:]],
            None if seen[1] < 0 and observed != "hindsight" else seen[1],
        )
    cell, info = late.reset(seed=5)
    log = info["pending_actions"].tolist()
    model = agent.model
    for s, a in np.ndindex(model.likely.shape):
        visits = dict(
            zip(model.successors[s, a].tolist(), model.visits[s, a].tolist(), strict=True)
        )
        plain.counts[s, a] = {k: n for k, n in visits.items() if n} or {s: 1}
        plain.likely[s, a] = int(model.likely[s, a])
    plain.q = plain.q if VIEWS[name].sees_queue else dict(enumerate(agent.table.q))
    for _ in range(30):
        values = plain.values_of(cell, plain.seen_with(cell, log, info), log, info)
        ages = info.get("action_age")
        np.testing.assert_allclose(
            policy.q_values(cell, info["pending_actions"], ages), values, atol=1e-12
        )
        action = int(values.argmax())
        log.append(action)
        cell, _, ended, _, info = late.step(action)
        if ended:
            break


@pytest.mark.parametrize("name", ["augmented", "delayed", "distribution", "oblivious"])
def test_a_constant_process_is_the_constant_delay(name):
    env = finite(carve(4, 3), 0.3)
    specs = [make_spec("maze", name, delay, {}) for delay in (3, Constant(3))]
    specs.append(make_spec("maze", name, Buffered(Uniform(1, 3), 3), {"observed": "never"}))
    assert {spec.id for spec in specs} == {specs[0].id}
    assert specs[0].canonical().keys() == {"kind", "env", "agent", "delay"}
    one, other = (trained(name, delay, "now", env, 10) for delay in (3, Constant(3)))
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[0].table.q, other[0].table.q)


@pytest.mark.parametrize("name", ["augmented", "delayed"])
def test_a_random_channel_of_one_age_learns_what_the_constant_delay_does(name):
    """A walk that cannot move: the general code, with ages in the keys, and the same returns."""
    env = finite(carve(4, 3), 0.3)
    _, returns = trained(name, 3, "now", env, 40)
    for observed in ("now", "never"):  # in hindsight the first step has no age, a key of its own
        _, found = trained(name, RandomWalk(3, 3), observed, env, 40)
        np.testing.assert_array_equal(found, returns)


def test_chunks_do_not_change_a_run():
    env, process = finite(carve(4, 3), 0.3), GilbertElliott(1, Uniform(2, 5), 0.2, 0.4)
    whole, returns = trained("augmented", process, "hindsight", env, 60)
    agent, used = new_agent(env, VIEWS["augmented"], process, "hindsight"), streams()
    parts = []
    for n in (1, 20, 39):
        agent, some = run_episodes(env, agent, SETTINGS, used, n, learn=True)
        parts.append(some)
    np.testing.assert_array_equal(np.concatenate(parts), returns)
    rows = int(whole.table.used[0])
    np.testing.assert_array_equal(agent.table.q[:rows], whole.table.q[:rows])


@pytest.mark.slow
@pytest.mark.parametrize("observed", ["now", "hindsight"])
@pytest.mark.parametrize("process", [Uniform(0, 2), RandomWalk(0, 2)], ids=str)
def test_augmented_q_converges_to_the_exact_values(process, observed):
    leads_to, gamma = carve(3, 1), 0.9
    env = finite(leads_to, 0.0)
    agent, _ = trained("augmented", process, observed, env, 60_000, QLearning(0.02, gamma, 1.0))
    P, r = env.model()
    exact = solve(MDP(P, r, gamma), process, observed=observed, tol=1e-10)
    policy = policy_of("augmented", agent, env, process, observed)
    off = []
    for channel, age in enumerate(exact.channel.ages.tolist()):
        for state in range(8):
            for queue in np.ndindex(4, 4):
                values = policy.q_values(state, queue, age)
                if values.any():
                    off.append(abs(values.max() - exact.value(state, queue, channel)))
    assert len(off) > 190
    assert np.quantile(off, 0.9) < 0.02  # the others are hardly ever visited
    assert np.mean(off) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("observed", OBSERVED)
def test_no_agent_earns_more_than_the_exact_optimum(observed):
    size, noise, process = 3, 0.2, Uniform(0, 3)
    env = finite(carve(size, 0), noise)
    P, r = env.model()
    exact = solve(MDP(P, r, 1.0), process, horizon=10 * size**2)
    best = np.mean([exact.value(0, queue) for queue in np.ndindex(4, 4, 4)])
    for name in ("augmented", "delayed", "distribution", "oblivious"):
        result = deadtime.train(
            "maze",
            name,
            process,
            size=size,
            noise=noise,
            maze_seed=0,
            observed=observed,
            episodes=20_000,
            evaluation_episodes=4000,
        )
        assert result.scores[0] < best + 0.01
        if name == "augmented" and observed == "now":
            assert result.scores[0] > best - 0.05


def test_specs_are_read_from_records_and_checked():
    spec = make_spec("maze", "augmented", "uniform:1-3", {"observed": "hindsight", "size": 4})
    assert spec.canonical()["process"] == Uniform(1, 3).to_json()
    assert from_canonical(spec.canonical()) == spec
    assert spec.name.startswith("maze-augmented-uniform3-")
    assert spec.delay_text == "uniform:1-3, ages hindsight"
    ids = {make_spec("maze", "augmented", "uniform:1-3", {"observed": o}).id for o in OBSERVED}
    assert len(ids) == 3
    ids = {make_spec("maze", "oblivious", "uniform:1-3", {"observed": o}).id for o in OBSERVED}
    assert len(ids) == 1
    with pytest.raises(
        ValueError, match='observed is "now", "hindsight" or "never"; got "?\'?late'
    ):
        make_spec("maze", "augmented", "uniform:1-3", {"observed": "late"})


def test_policies_ask_for_the_ages_that_they_need():
    result = deadtime.train("maze", "augmented", Uniform(1, 3), size=4, episodes=50)
    policy = result.policy(0)
    with pytest.raises(ValueError, match="augmented needs the age of the action, 0 to 3, observed"):
        policy.act(0, [0, 0, 0])
    with pytest.raises(ValueError, match="got ages=4"):
        policy.act(0, [0, 0, 0], 4)
    env = deadtime.ActionDelay(gym.make("deadtime/Maze-v0", size=4), Uniform(1, 3))
    shown = deadtime.AugmentObservation(env)
    obs, info = shown.reset(seed=1)
    action, _ = policy.predict(obs)
    values = policy.q_values(obs["observation"], info["pending_actions"], info["action_age"])
    assert values[action] == values.max()
    with pytest.raises(ValueError, match='got an observation without "action_age"'):
        policy.predict({name: part for name, part in obs.items() if name != "action_age"})
    assert len(deadtime.evaluate(policy, "maze", size=4, episodes=3)) == 3


def test_a_delayed_policy_expects_the_ages_of_the_delay_that_it_plays_under():
    result = deadtime.train("maze", "delayed", 3, size=4, episodes=300)
    policy = result.policy(0)
    assert not policy.sees_ages
    twin = policy.at_delay(RandomWalk(1, 2))
    assert twin.sees_ages
    queue = [1, 2]
    steps = [*queue[1:]] if twin._waits.steps[2, 0] == 1 else queue
    state = 0
    for action in steps[: int(twin._waits.steps[2, 0])]:
        state = int(policy._likely[state, action])
    assert twin.predicted_state(0, queue, 1) == state
    assert (deadtime.evaluate(policy, "maze", RandomWalk(1, 2), size=4, episodes=5) > -1).any()
