"""Delay on one Gymnasium environment: three wrappers.

The vector versions are in `gym_vector`; the convention is in `deadtime.delays.convention`.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs

from deadtime.delays.convention import (
    FixedDelay,
    PendingActions,
    WarmUp,
    Warmup,
    check_delay,
    second_delay,
)
from deadtime.wrappers.augmented_observation import Augmentation, beneath, check_present


def _check_single(env: Any, name: str) -> None:
    if isinstance(env, gym.vector.VectorEnv):
        raise ValueError(
            f"{name} wraps one environment; got the vector environment {env}: use Vector{name}"
        )
    for hidden in beneath(env, gym.wrappers.Autoreset):
        raise ValueError(
            f"{name} must see every reset, and {hidden} hides them: put Autoreset around {name} instead"
        )


class ActionDelay(FixedDelay, gym.Wrapper, RecordConstructorArgs):
    """Execute each action `delay` steps after it was chosen.

    ``info["pending_actions"]`` (oldest first, an element of ``batch_space(action_space, delay)``) is there after reset and
    step, ``info["executed_action"]`` after step. The pending actions are read-only, and later steps never change them.

    An action outside the action space is refused when it is chosen. A Box is checked for shape and type only: the
    environment may clip or refuse what lies outside its bounds, when the action is executed.
    """

    def __init__(self, env: gym.Env, delay: int, warmup: Warmup = "random"):
        """`warmup` fills the queue at reset: "random", one action, or callable(obs, delay, rng) -> the m actions."""
        _check_single(env, "ActionDelay")
        if env.has_wrapper_attr("pending_spec"):
            raise second_delay(env.get_wrapper_attr("pending_spec")[1], delay)
        self._delay = check_delay(delay)
        RecordConstructorArgs.__init__(self, delay=self._delay, warmup=warmup)
        gym.Wrapper.__init__(self, env)
        self._pending = PendingActions(env.action_space, delay)
        self._warmup = WarmUp(warmup, env.action_space, delay)
        self.pending_spec = (env.action_space, self._delay)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and draw the actions that are already pending; `seed` decides both."""
        obs, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._warmup.seed(seed)
        self._pending.fill(self._warmup.draw(obs))
        return obs, {**info, "pending_actions": self._pending.actions}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Execute the oldest pending action; `action` joins the end of the queue."""
        executed, pending = self._pending.push(action)
        obs, reward, terminated, truncated, info = self.env.step(executed)
        return (
            obs,
            reward,
            terminated,
            truncated,
            {**info, "executed_action": executed, "pending_actions": pending},
        )


class ObservationDelay(FixedDelay, gym.Wrapper, RecordConstructorArgs):
    """Show the observation of `delay` steps ago; until then, the one of the reset. Rewards and ends are not delayed.

    ``info["observation_age"]`` says how many steps old the observation is.
    """

    def __init__(self, env: gym.Env, delay: int):
        """At delay 0 the observation is the present one."""
        _check_single(env, "ObservationDelay")
        self._delay = check_delay(delay)
        for augmented in beneath(env, AugmentObservation):
            check_present(augmented.augmentation.delay, self._delay)
        RecordConstructorArgs.__init__(self, delay=self._delay)
        gym.Wrapper.__init__(self, env)
        self._seen: deque[Any] = deque(maxlen=self._delay + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the first observation is of age 0."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._seen.clear()
        return self._delayed(obs, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step at once, but show what was there `delay` steps ago."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        obs, info = self._delayed(obs, info)
        return obs, reward, terminated, truncated, info

    def _delayed(self, obs: Any, info: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._seen.append(copy.deepcopy(obs))
        return copy.deepcopy(self._seen[0]), {**info, "observation_age": len(self._seen) - 1}


class AugmentObservation(FixedDelay, gym.Wrapper, RecordConstructorArgs):
    """Show (observation, pending actions) as one observation: the paper's augmented state x_t.

    The observation is a Dict with the keys "observation" and "pending_actions". With `flat` it is one vector: the
    observation, then each pending action, oldest first, discrete ones as one-hot vectors. At delay 0 the queue is empty.

    An `ObservationDelay` of 1 or more, beneath or around this wrapper, is refused. The queue of `ActionDelay` would lack
    the actions since the delayed observation, so the augmented state would not be Markov. One `ActionDelay` of the sum of
    both delays is equivalent.
    """

    def __init__(self, env: gym.Env, flat: bool = False):
        """Wrap an environment that has `ActionDelay` somewhere beneath."""
        _check_single(env, "AugmentObservation")
        RecordConstructorArgs.__init__(self, flat=flat)
        gym.Wrapper.__init__(self, env)
        spec = (
            env.get_wrapper_attr("pending_spec") if env.has_wrapper_attr("pending_spec") else None
        )
        self.augmentation = Augmentation(env.observation_space, spec, flat)
        self._delay = self.augmentation.delay
        check_present(
            self.augmentation.delay,
            sum(wrapper.delay for wrapper in beneath(env, ObservationDelay)),
        )
        self.observation_space = self.augmentation.space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset; the observation includes the warm-up actions."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self.augmentation.join(obs, info["pending_actions"]), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step; the observation includes the action just chosen, as the queue's last."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return (
            self.augmentation.join(obs, info["pending_actions"]),
            reward,
            terminated,
            truncated,
            info,
        )
