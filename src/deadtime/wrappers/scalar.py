"""Delay on one Gymnasium environment: three wrappers.

The vector versions are in `deadtime.wrappers.vector`; the convention is in
`deadtime.delays.convention`.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from deadtime.delays.convention import FixedDelay, Warmup, second_delay
from deadtime.delays.parse import DelayLike, as_process
from deadtime.delays.pending import PendingActions
from deadtime.delays.process import DelayProcess
from deadtime.delays.stream import AgeStream
from deadtime.delays.warm_up import WarmUp
from deadtime.wrappers.augmented_observation import (
    Augmentation,
    Augmented,
    Shown,
    beneath,
    check_outermost,
    check_rewards,
    second_observation_delay,
)
from deadtime.wrappers.knowledge import AgeKnowledge, Observed

ACTIONS, OBSERVATIONS = 1, 2
"""The names of the random streams of the ages of actions and observations."""

Step = tuple[Any, Any, bool, bool, dict[str, Any]]


def _check_single(env: object, name: str) -> None:
    if isinstance(env, gym.vector.VectorEnv):
        raise ValueError(
            f"{name} wraps one environment; got the vector environment {env}: use Vector{name}"
        )
    for hidden in beneath(env, gym.wrappers.Autoreset):
        raise ValueError(
            f"{name} must see every reset, and {hidden} hides them: put Autoreset around {name} "
            "instead"
        )


def _recorded(process: DelayProcess) -> Any:
    """Return the delay for a wrapper's spec, which must be JSON: a number if it is constant."""
    data = process.to_json()
    return data["delay"] if data["kind"] == "constant" else data


class ActionDelay(FixedDelay, gym.Wrapper, RecordConstructorArgs):
    """Execute each action late: at step t the action of age z_t, which was chosen at t - z_t.

    `delay` is the age of every step, or a process of `deadtime.delays`. After reset and step,
    ``info`` has these entries:

    - ``pending_actions``: the last K actions, oldest first, where K is the longest age. They are an
      element of ``batch_space(action_space, K)``, read-only, and never changed by later steps;
    - ``action_age``: the age that the agent knows;
    - ``pending_count``: how many of the pending actions may still be executed;
    - after a step, ``executed_action`` and its age, ``executed_age``.

    `observed` says what the agent knows of the ages: "now", z_t before it chooses a_t; "hindsight",
    z_{t-1}; or "never". Ages are drawn from a random stream of their own, which the seed of `reset`
    decides.

    An action outside the action space is refused when it is chosen. A Box is checked for shape and
    type only: the environment may clip or refuse values outside its bounds, when it executes the
    action.
    """

    def __init__(
        self, env: gym.Env, delay: DelayLike, warmup: Warmup = "random", observed: Observed = "now"
    ):
        """`warmup` fills the queue at reset: "random", one action, or a callable.

        The callable (obs, K, rng) returns the K actions.
        """
        _check_single(env, "ActionDelay")
        if env.has_wrapper_attr("pending_spec"):
            raise second_delay(env.get_wrapper_attr("pending_spec")[1], delay)
        check_outermost(env, "ActionDelay")
        self.process = as_process(delay)
        self._delay = self.process.longest
        RecordConstructorArgs.__init__(
            self, delay=_recorded(self.process), warmup=warmup, observed=observed
        )
        gym.Wrapper.__init__(self, env)
        self._pending = PendingActions(env.action_space, self._delay)
        self._warmup = WarmUp(warmup, env.action_space, self._delay)
        self.pending_spec = (env.action_space, self._delay)
        self.knowledge = AgeKnowledge(self.process, observed)
        random = self.process.constant is None
        self._ages = AgeStream(self.process, ACTIONS) if random else None
        self._age = self._delay
        self._known = self.knowledge.after_step(self._age, self._age) if not random else {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset and draw the pending actions and the first age; `seed` decides all of it."""
        obs, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._warmup.seed(seed)
        if self._ages is not None:
            if seed is not None:
                self._ages.seed(seed)
            self._age = self._ages.start()
        self._pending.fill(self._warmup.draw(obs))
        known = self.knowledge.at_reset(self._age)
        return obs, {**info, "pending_actions": self._pending.actions, **known}

    def step(self, action: object) -> Step:
        """Execute the pending action of the present age; `action` joins the end of the queue."""
        age = self._age
        executed, pending = self._pending.push(action, age)
        obs, reward, terminated, truncated, info = self.env.step(executed)
        if self._ages is None:
            known = self._known
        else:
            self._age = self._ages.advance(terminated or truncated)
            known = self.knowledge.after_step(age, self._age)
        info = {
            **info,
            "executed_action": executed,
            "executed_age": age,
            "pending_actions": pending,
            **known,
        }
        return obs, reward, terminated, truncated, info


class ObservationDelay(FixedDelay, gym.Wrapper, RecordConstructorArgs):
    """Show late observations: at step t the observation of step t - w_t, with w_0 = 0 and w_t ≤ t.

    `delay` is a number of steps, so that w_t = min(delay, t), or a process of `deadtime.delays`.
    ``info["observation_age"]`` is w_t. The end of an episode is never delayed.

    With ``rewards="step"`` a reward comes with the step that earned it. With
    ``rewards="observation"`` it comes when the observation it led to is shown: rewards of skipped
    observations are summed, and the last step pays the rest. Time limits must then be beneath this
    wrapper, where it sees them.
    """

    def __init__(self, env: gym.Env, delay: DelayLike, rewards: str = "step"):
        """Wrap an environment; at delay 0 the observation is the present one."""
        _check_single(env, "ObservationDelay")
        check_outermost(env, "ObservationDelay")
        self.process = as_process(delay)
        for other in beneath(env, ObservationDelay):
            raise second_observation_delay(other.process, self.process)
        self._delay = self.process.longest
        self._pays_late = check_rewards(rewards)
        RecordConstructorArgs.__init__(self, delay=_recorded(self.process), rewards=rewards)
        gym.Wrapper.__init__(self, env)
        random = self.process.constant is None
        self._ages = AgeStream(self.process, OBSERVATIONS) if random else None
        self._seen: deque[Any] = deque(maxlen=self._delay + 1)
        self._unpaid: deque[Any] = deque()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the first observation has age 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        if self._ages is not None:
            if seed is not None:
                self._ages.seed(seed)
            self._ages.start()
        self._seen.clear()
        self._unpaid.clear()
        shown, age = self._show(obs, 0)
        return shown, {**info, "observation_age": age}

    def step(self, action: object) -> Step:
        """Step at once, but show an earlier observation of the same episode."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        ended = terminated or truncated
        drawn = self._delay if self._ages is None else self._ages.advance(ended)
        obs, age = self._show(obs, drawn)
        if self._pays_late:
            reward = self._paid(reward, 0 if ended else age)
        return obs, reward, terminated, truncated, {**info, "observation_age": age}

    def _show(self, obs: object, drawn: int) -> tuple[Any, int]:
        """Keep an observation; return the one to show and its age, at most `drawn`."""
        self._seen.append(copy.deepcopy(obs))
        age = min(drawn, len(self._seen) - 1)
        return copy.deepcopy(self._seen[-1 - age]), age

    def _paid(self, reward: SupportsFloat, age: int) -> float:
        """Return the sum of the unpaid rewards without the last `age` ones."""
        self._unpaid.append(float(reward))
        paid = 0.0
        while len(self._unpaid) > age:
            paid += self._unpaid.popleft()
        return paid


class AugmentObservation(Augmented, gym.Wrapper, RecordConstructorArgs):
    """Show all that an agent knows as one observation: the paper's augmented state x_t.

    The observation is a Dict. "observation" is the one shown by the environment beneath.
    "pending_actions" are the last K actions, oldest first, where K is the longest age of actions
    plus the longest age of observations: with both delays, the actions that are on their way and
    those whose effect is not seen yet. Ages are shown too if they vary and are observed.
    "action_age" has the ages of the steps that the observation does not show yet, and of the next
    step, oldest first; -1 stands for no age. With delayed observations there is also
    "observation_age".

    With `flat` it is one vector: the observation, the pending actions (discrete ones as one-hot
    vectors), and the ages as numbers. At delay 0 the queue is empty.

    The augmented state is Markov if the environment is, the ages are observed "now" and the age
    itself is the channel's state, as in Constant, Uniform, Categorical, RandomWalk and PerEpisode.
    With late observations that holds from the first step for constants and for latencies in order.
    For the others it holds once an episode is as long as the longest age: until then w_t ≤ t hides
    the channel's age.
    """

    def __init__(self, env: gym.Env, flat: bool = False):
        """Wrap an environment that has `ActionDelay` or `ObservationDelay` somewhere inside."""
        _check_single(env, "AugmentObservation")
        RecordConstructorArgs.__init__(self, flat=flat)
        gym.Wrapper.__init__(self, env)
        actions = next(beneath(env, ActionDelay), None)
        spec = None
        if env.has_wrapper_attr("pending_spec"):
            spec = env.get_wrapper_attr("pending_spec")
        observations = next(beneath(env, ObservationDelay), None)
        self.augmentation = Augmentation(
            env.observation_space,
            env.action_space,
            spec,
            None if actions is None else actions.knowledge,
            None if observations is None else observations.process,
            flat,
        )
        self._delay = self.augmentation.delay
        self._shown = Shown(self.augmentation)
        self.observation_space = self.augmentation.space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the observation includes the warm-up actions."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._shown.start(info)
        return self.augmentation.join(obs, self._shown.parts(info)), info

    def step(self, action: object) -> Step:
        """Step; the observation includes the action just chosen, as the queue's last."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._shown.follow(action, info.get("action_age"))
        obs = self.augmentation.join(obs, self._shown.parts(info))
        return obs, reward, terminated, truncated, info
