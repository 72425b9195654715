"""Stable-Baselines3 under delay, with the real library."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from deadtime import ActionDelay, AugmentObservation, ObservationDelay, PredictObservation
from deadtime.delays import Constant, Held, Uniform

pytest.importorskip("stable_baselines3", reason="needs pip install '.[sb3]'")
pytestmark = pytest.mark.full

import torch
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from deadtime.integrations.sb3 import (
    ExecutedReplayBuffer,
    ForwardModel,
    LearnForwardModel,
    ProjectedDQN,
    ProjectedSAC,
    ProjectedTD3,
)

torch.set_num_threads(1)


def small(**settings):
    """Return settings of a small agent, with a dict of its own, to which the library adds keys."""
    return {"policy_kwargs": {"net_arch": [16, 16]}, "device": "cpu", "seed": 3, **settings}


def settings_of(learner):
    if issubclass(learner, DQN):
        return small(learning_starts=100, target_update_interval=50, learning_rate=1e-3)
    return small(learning_starts=50, batch_size=32)


def delayed(name, delay, **settings):
    return AugmentObservation(ActionDelay(gym.make(name), delay, **settings), flat=True)


def predicted(name, delay, **settings):
    env = ActionDelay(gym.make(name), delay)
    model = ForwardModel(env, hidden=(16,), **settings)
    return PredictObservation(env, model), model


def same_weights(one, other):
    ours, theirs = (model.policy.state_dict() for model in (one, other))
    assert list(ours) == list(theirs)
    for name, weights in ours.items():
        assert torch.equal(weights, theirs[name]), name


@pytest.mark.filterwarnings("error:.*n_steps")
@pytest.mark.parametrize("n_steps", [1, 3])
def test_dqn_without_a_delay_is_stable_baselines3_s(n_steps):
    settings = settings_of(DQN)
    plain = DQN("MlpPolicy", gym.make("CartPole-v1"), n_steps=n_steps, **settings).learn(600)
    late = delayed("CartPole-v1", 0)
    ours = ProjectedDQN("MlpPolicy", late, n_steps=n_steps, **settings_of(DQN)).learn(600)
    assert plain._n_updates > 100
    same_weights(plain, ours)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(("ours", "theirs"), [(ProjectedSAC, SAC), (ProjectedTD3, TD3)])
def test_actor_critics_without_a_delay_are_stable_baselines3_s(ours, theirs, n_steps):
    noise = NormalActionNoise(np.zeros(1), 0.1 * np.ones(1))
    extra = {"action_noise": noise, "n_steps": n_steps}
    plain, late = (
        learner("MlpPolicy", env, **extra, **settings_of(SAC)).learn(250)
        for learner, env in ((theirs, gym.make("Pendulum-v1")), (ours, delayed("Pendulum-v1", 0)))
    )
    same_weights(plain, late)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(("learner", "name"), [(DQN, "CartPole-v1"), (SAC, "Pendulum-v1")])
def test_predictions_without_a_delay_change_nothing(learner, name, n_steps):
    plain = learner("MlpPolicy", gym.make(name), n_steps=n_steps, **settings_of(learner))
    plain.learn(250)
    env, model = predicted(name, 0)
    rows = {"n_steps": n_steps, "gamma": 0.99}
    late = learner(
        "MlpPolicy",
        env,
        replay_buffer_class=ExecutedReplayBuffer,
        replay_buffer_kwargs=rows,
        **settings_of(learner),
    )
    same_weights(plain, late.learn(250, callback=LearnForwardModel(model)))


class Numbered(gym.Env):
    """An environment whose states are all different, and which writes a log."""

    def __init__(self, seed, box):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32) if box else spaces.Discrete(3)
        self.rng = np.random.default_rng(seed)
        self.lane, self.count, self.log = seed, 0, []

    def _next(self):
        self.count += 1
        self.state = np.array([self.lane, self.count], np.float32)
        return self.state

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.log.append("reset")
        return self._next(), {}

    def step(self, action):
        before = self.state
        reward, terminated = float(self.rng.normal()), bool(self.rng.random() < 0.06)
        self.log.append((before, np.ravel(action).astype(np.float32), reward, terminated))
        return self._next(), reward, terminated, False, {}


class Watched(gym.Wrapper):
    """A log of what the agent saw and chose, on the outside."""

    def __init__(self, env):
        super().__init__(env)
        self.seen = []

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        self.seen.append((obs, None, None))
        return obs, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.seen.append((obs, np.ravel(action).astype(np.float32), info["executed_age"]))
        return obs, reward, terminated, truncated, info


def logged_rows(env, state_of):
    """Return the rows of a watched environment, by the second number of their state."""
    inner, outer = env.unwrapped.log, env.seen
    starts = [i for i, entry in enumerate(inner) if entry == "reset"]
    rows = {}
    for start, end in zip(starts, [*starts[1:], len(inner)], strict=True):
        steps, shown = inner[start + 1 : end], outer[start:end]
        for t, (state, action, *_) in enumerate(steps):
            age = shown[t + 1][2]
            if age > t:
                continue
            chosen = shown[t - age + 1][1]
            np.testing.assert_allclose(chosen, action)
            row = {
                "action": action,
                "seen": shown[t - age][0],
                "first": all(i - shown[i + 1][2] != t - age for i in range(t)),
                "ahead": [],
            }
            for last in range(t, len(steps)):
                ahead = {
                    "reward": steps[last][2],
                    "terminated": steps[last][3],
                    "next_state": state_of(shown[last + 1][0]),
                }
                if last + 2 < len(shown):
                    follower = shown[last + 2][2]
                    ahead["next_seen"] = shown[last + 1 - follower][0]
                    ahead["held"] = follower == shown[last + 1][2] + 1
                row["ahead"].append(ahead)
            rows[state[1].item()] = row
    return rows


@pytest.mark.parametrize("observed", ["now", "hindsight", "never"])
@pytest.mark.parametrize("box", [True, False])
@pytest.mark.parametrize("process", [Constant(2), Uniform(1, 3), Held(0, 3)], ids=str)
@pytest.mark.parametrize("n_steps", [1, 3])
def test_rows_are_those_of_a_log(process, box, observed, n_steps):
    """Several environments, ends, time limits, two calls of `learn`, held and overtaken actions."""
    kept = []

    def make(seed):
        env = TimeLimit(Numbered(seed, box), 15)
        env = AugmentObservation(ActionDelay(env, process, observed=observed), flat=True)
        kept.append(Watched(env))
        return kept[-1]

    envs = DummyVecEnv([lambda seed=seed: make(seed) for seed in range(2)])
    learner = ProjectedSAC if box else ProjectedDQN
    model = learner("MlpPolicy", envs, learning_starts=10_000, n_steps=n_steps, **small())
    model.learn(120)
    model.learn(200)
    rows = {}
    for lane, env in enumerate(kept):
        rows |= {(lane, n): row for n, row in logged_rows(env, lambda obs: obs[:2]).items()}
    np.random.seed(0)
    batch = model.replay_buffer.sample(600)
    now, then = batch.observations, batch.next_observations
    found, lengths = set(), set()
    for i in range(600):
        key = tuple(int(number) for number in now.state[i])
        row = rows[key]
        found.add(key)
        steps = 1
        if n_steps > 1:
            steps = round(np.log(batch.discounts[i].item()) / np.log(model.gamma))
        lengths.add(steps)
        ahead, last = row["ahead"][:steps], row["ahead"][steps - 1]
        scale = 2.0 if box else 1.0
        np.testing.assert_allclose(batch.actions[i] * scale, row["action"], atol=1e-6)
        total = sum(model.gamma**k * step["reward"] for k, step in enumerate(ahead))
        assert batch.rewards[i].item() == pytest.approx(total, rel=1e-5, abs=1e-5)
        assert bool(batch.dones[i]) == last["terminated"]
        if steps < n_steps and last is not row["ahead"][-1] and process != Held(0, 3):
            assert "next_seen" not in row["ahead"][steps]
        np.testing.assert_allclose(now.seen[i], row["seen"])
        np.testing.assert_allclose(then.state[i], last["next_state"])
        if now.fixed is not None:
            assert now.fixed[i].item() != row["first"]
        if "next_seen" in last and not last["terminated"]:
            np.testing.assert_allclose(then.seen[i], last["next_seen"])
            if then.fixed is not None:
                assert then.fixed[i].item() == last["held"]
    assert lengths == {*range(1, n_steps + 1)}
    missing = {key for key in rows if key not in found}
    ends = {key for key in missing if "next_seen" not in rows[key]["ahead"][0]}
    assert len(missing - ends) < (0.2 if process == Held(0, 3) else 0.1) * len(rows)


def test_rows_of_predictions_are_what_happened():
    kept = []

    def make(seed):
        env = ActionDelay(TimeLimit(Numbered(seed, True), 15), 3)
        kept.append(Watched(PredictObservation(env, lambda obs, action: obs + 100)))
        return kept[-1]

    envs = DummyVecEnv([lambda seed=seed: make(seed) for seed in range(2)])
    buffer = {"replay_buffer_class": ExecutedReplayBuffer}
    model = SAC("MlpPolicy", envs, learning_starts=10_000, **buffer, **small())
    model.learn(300)
    rows = {}
    for lane, env in enumerate(kept):
        found = logged_rows(env, lambda obs: obs - 300)
        rows |= {(lane, n): row for n, row in found.items()}
    batch = model.replay_buffer.sample(300)
    for i in range(300):
        row = rows[tuple(int(number) for number in batch.observations[i])]
        after = row["ahead"][0]
        np.testing.assert_allclose(batch.actions[i] * 2.0, row["action"], atol=1e-6)
        np.testing.assert_allclose(batch.next_observations[i], after["next_state"])
        assert batch.rewards[i].item() == pytest.approx(after["reward"])
        assert bool(batch.dones[i]) == after["terminated"]


@pytest.mark.parametrize("delay", [0, 3, Uniform(1, 3), Held(0, 2)], ids=str)
def test_learners_learn_at_any_delay(delay, tmp_path):
    cases = [
        (ProjectedDQN, "CartPole-v1"),
        (ProjectedSAC, "Pendulum-v1"),
        (ProjectedTD3, "Pendulum-v1"),
    ]
    for learner, name in cases:
        env = delayed(name, delay)
        model = learner("MlpPolicy", env, **settings_of(learner)).learn(200)
        model.learn(50, reset_num_timesteps=False)
        assert all(torch.isfinite(w).all() for w in model.policy.state_dict().values())
        model.save(tmp_path / "model")
        seen = np.stack([env.observation_space.sample() for _ in range(5)]).clip(-2, 2)
        before, _ = model.predict(seen, deterministic=True)
        for loaded in (learner.load(tmp_path / "model"), learner.load(tmp_path / "model", env=env)):
            again, _ = loaded.predict(seen, deterministic=True)
            np.testing.assert_array_equal(before, again)
        loaded.learn(150, reset_num_timesteps=True)
        evaluate_policy(loaded, Monitor(delayed(name, delay)), n_eval_episodes=1)


class Wheel(gym.Env):
    """A wheel that turns by itself, and rewards the action that names its place."""

    observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(3))
        return np.eye(3, dtype=np.float32)[self.place], {}

    def step(self, action):
        reward = float(action == self.place)
        self.place = (self.place + 1) % 3
        return np.eye(3, dtype=np.float32)[self.place], reward, False, False, {}


@pytest.mark.parametrize("n_steps", [1, 3])
def test_values_are_those_of_a_problem_that_is_solved_by_hand(n_steps):
    """Q(s, a) = 1 if a names the place, plus γ / (1 - γ); F(s, queue) is Q two steps later.

    Rows of several steps have the rewards of explored actions too, so only their order is exact.
    """
    env = AugmentObservation(ActionDelay(TimeLimit(Wheel(), 20), 2), flat=True)
    settings = small(learning_rate=3e-3, learning_starts=200, target_update_interval=100)
    fast = {"gamma": 0.5, "train_freq": 1, "exploration_final_eps": 0.2, "n_steps": n_steps}
    model = ProjectedDQN("MlpPolicy", env, **fast, **settings).learn(2000)
    obs, _ = env.reset(seed=0)
    shown, places = [], []
    for _ in range(40):
        shown.append(torch.as_tensor(obs))
        places.append(env.unwrapped.place)
        action, _ = model.predict(obs, deterministic=True)
        obs, reward, _, _, _ = env.step(action)
        assert reward == 1.0 or len(places) <= 2
    wanted = torch.eye(3) + 1.0
    near = 0.1 if n_steps == 1 else 0.4
    with torch.no_grad():
        values = model.q_net(torch.eye(3))
        later = model.q_net.projected(torch.stack(shown))
    assert (values - wanted).abs().max() < near
    assert (later - wanted[(torch.tensor(places) + 2) % 3]).abs().max() < near


def test_held_actions_are_given_and_have_no_entropy():
    model = ProjectedSAC("MlpPolicy", delayed("Pendulum-v1", Uniform(1, 4)), **settings_of(SAC))
    model.learn(200)
    batch = model.replay_buffer.sample(200)
    then, now = batch.next_observations, batch.observations
    assert then.fixed.any()
    assert not then.fixed.all()
    actions, log_prob = model.actor.action_log_prob(then)
    assert torch.equal(actions[then.fixed], then.action[then.fixed])
    assert (log_prob.reshape(-1, 1)[then.fixed] == 0).all()
    assert (log_prob.reshape(-1, 1)[~then.fixed] != 0).all()
    again = now.fixed.reshape(-1)
    assert again.any()
    model.actor.zero_grad()
    action, log_prob = model.actor.action_log_prob(now)
    (action.sum(dim=1) + log_prob)[again].sum().backward()
    assert all((w.grad is None) or (w.grad == 0).all() for w in model.actor.parameters())


def test_vector_environments_and_normalization():
    for kind in (DummyVecEnv, SubprocVecEnv):
        envs = make_vec_env(lambda: delayed("CartPole-v1", 2), n_envs=2, vec_env_cls=kind, seed=1)
        envs = VecNormalize(envs)
        ProjectedDQN("MlpPolicy", envs, **settings_of(DQN)).learn(300)
        envs.close()


def test_checks_of_stable_baselines3_pass():
    for name in ("CartPole-v1", "Pendulum-v1"):
        for delay in (0, 3, Uniform(1, 3)):
            check_env(delayed(name, delay), skip_render_check=True)
        check_env(predicted(name, 3)[0], skip_render_check=True)


def test_a_forward_model_learns_and_is_kept(tmp_path):
    env, model = predicted("Pendulum-v1", 3, learning_rate=1e-2)
    buffer = {"replay_buffer_class": ExecutedReplayBuffer}
    agent = SAC("MlpPolicy", env, **buffer, **settings_of(SAC))
    agent.learn(800, callback=LearnForwardModel(model))
    errors, still = [], []
    obs, info = env.reset(seed=5)
    shown = []
    for t in range(150):
        shown.append(obs)
        obs, _, _, _, info = env.step(env.action_space.sample())
        if t >= 3:
            errors.append(np.abs(info["present_observation"] - shown[t - 2]).mean())
            still.append(np.abs(info["present_observation"] - info["last_observation"]).mean() * 3)
    assert np.mean(errors) < 0.5 * np.mean(still)
    model.save(tmp_path / "model.safetensors")
    other = ForwardModel(env, hidden=(16,), seed=9)
    other.load(tmp_path / "model.safetensors")
    action = env.action_space.sample()
    np.testing.assert_array_equal(other(obs, action), model(obs, action))
    with pytest.raises(ValueError, match="same sizes"):
        ForwardModel(env, hidden=(8,)).load(tmp_path / "model.safetensors")


def test_ppo_takes_augmented_observations():
    PPO("MlpPolicy", delayed("CartPole-v1", 3), n_steps=32, batch_size=32, device="cpu").learn(64)


def test_evaluate_policy_takes_our_policies():
    import deadtime

    result = deadtime.train("cartpole", "augmented", delay=2, steps=300, seeds=1)
    policy = result.policy(seed=0)
    envs = DummyVecEnv([lambda: Monitor(delayed("CartPole-v1", 2))])
    envs.seed(7)
    (total,), _ = evaluate_policy(policy, envs, n_eval_episodes=1, return_episode_rewards=True)
    env = ActionDelay(gym.make("CartPole-v1"), 2)
    obs, info = env.reset(seed=7)
    ours, ended = 0.0, False
    while not ended:
        action = policy.act(obs, info["pending_actions"])
        obs, reward, terminated, truncated, info = env.step(action)
        ours, ended = ours + reward, terminated or truncated
    assert total == ours


def test_what_can_not_be_done_is_refused():
    late = delayed("CartPole-v1", 2)
    now = gym.make("CartPole-v1")
    unflat = AugmentObservation(ActionDelay(gym.make("CartPole-v1"), 2))
    both = ObservationDelay(ActionDelay(gym.make("CartPole-v1"), 2), 1)
    both = AugmentObservation(both, flat=True)
    with pytest.raises(ValueError, match=r"AugmentObservation\(ActionDelay\(env, delay\), flat"):
        ProjectedDQN("MlpPolicy", now)
    with pytest.raises(ValueError, match="flat=True"):
        ProjectedDQN("MultiInputPolicy", unflat)
    two = [lambda d=d: delayed("CartPole-v1", d, observed="never") for d in (3, Uniform(1, 3))]
    with pytest.raises(ValueError, match="pass the same delay"):
        ProjectedDQN("MlpPolicy", DummyVecEnv(two))
    with pytest.raises(ValueError, match="leave it out"):
        ProjectedDQN("MlpPolicy", late, replay_buffer_class=ExecutedReplayBuffer)
    with pytest.raises(ValueError, match="pass False"):
        ProjectedDQN("MlpPolicy", late, optimize_memory_usage=True)
    shared = {"share_features_extractor": True}
    pendulum = delayed("Pendulum-v1", 2)
    with pytest.raises(ValueError, match="share no features"):
        ProjectedSAC("MlpPolicy", pendulum, policy_kwargs=shared)
    with pytest.raises(ValueError, match="use one ActionDelay with the sum of both"):
        ProjectedDQN("MlpPolicy", both)
    plain = ActionDelay(gym.make("CartPole-v1"), 2)
    model = DQN("MlpPolicy", plain, replay_buffer_class=ExecutedReplayBuffer)
    with pytest.raises(ValueError, match=r"info\['last_observation'\]"):
        model.learn(5)
    shown, forward = predicted("CartPole-v1", 2)
    model = DQN("MlpPolicy", shown)
    with pytest.raises(ValueError, match="replay_buffer_class=ExecutedReplayBuffer"):
        model.learn(5, callback=LearnForwardModel(forward))
    callback = LearnForwardModel(predicted("CartPole-v1", 2)[1])
    model = DQN("MlpPolicy", now)
    with pytest.raises(ValueError, match="in this process"):
        model.learn(5, callback=callback)
