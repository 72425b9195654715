"""Evaluation: returns of any policy, under any delay, in any Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import gymnasium as gym
import numpy as np

from deadtime._support.checks import check_count
from deadtime.delays import Delay, DelayProcess, as_delay
from deadtime.envs.families import environment_name, environment_settings, family_of, make
from deadtime.envs.gym_adapted import adapted
from deadtime.envs.gym_given import Given
from deadtime.envs.pools import LARGEST_RETURN, Played, Pool
from deadtime.runtime.policy import Policy, check_game, check_place
from deadtime.wrappers.scalar import ActionDelay

if TYPE_CHECKING:
    from jaxtyping import Float


class Acts(Protocol):
    """A policy with the method `act` of this library: it takes observation and pending actions."""

    @property
    def act(self) -> Callable[..., Any]:
        """Return the action to choose."""


class Predicts(Protocol):
    """A policy with the method `predict` of Stable-Baselines3."""

    @property
    def predict(self) -> Callable[..., tuple[Any, Any]]:
        """Return the action to choose, and the next state."""


AnyPolicy = Acts | Predicts | Callable[[Any], Any]
"""A policy, or a function of the observation."""


def evaluate(
    policy: AnyPolicy,
    env: Given,
    delay: int | str | DelayProcess | None = None,
    episodes: int = 100,
    seed: int = 1_000_000,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: object,
) -> Float[np.ndarray, " episodes"]:
    """Return the returns of `episodes` episodes, which begin with the seeds `seed`, `seed` + 1, …

    `env` is a name, an id of Gymnasium or a function that makes an environment. The environment's
    own settings follow by name or in `env_kwargs`. Its delay is that of the policy, unless `delay`
    is given. `env` may also be an instance, which is wrapped if `delay` is given.

    `policy` is one of these:
    - an object with `act(observation, pending_actions)` and, if it has a memory, `reset()`;
    - an object with `predict(observation, deterministic=True)`, which returns the action first, as
      Stable-Baselines3's policies do;
    - a function of the observation.

    Policies of this library adapt to `delay` by their method `at_delay`. They act only where
    observations and actions are the same as in their training.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(
            f"seed is a whole number, 0 or more; got {seed!r}: each number gives one episode"
        )
    channel = None if delay is None else as_delay(delay)
    if channel is not None and hasattr(policy, "at_delay"):
        policy = policy.at_delay(channel)
    name = ""
    if isinstance(env, str) or (callable(env) and not isinstance(env, gym.Env)):
        name = environment_name(env)
        if family_of(name).one_policy_each:
            check_game(policy, name)
        settings = environment_settings(name, settings, (), env_kwargs)
        under = getattr(policy, "channel", 0) if channel is None else channel
        env = delayed_environment(name, settings, under, policy)
    elif settings or env_kwargs:
        raise ValueError(
            f"settings are for environments by name; got {env_kwargs or settings} with {env}: "
            "give them to the environment itself"
        )
    elif channel is not None:
        numbered = getattr(policy, "num_states", 0) > 0  # a table takes the number of a state
        env = adapted(env) if isinstance(policy, Policy) and not numbered else env
        env = ActionDelay(env, channel, observed=getattr(policy, "observed", "now"))
    check_place(policy, env, name)
    seeds = range(seed, seed + check_count("episodes", episodes))
    return np.array([_episode(policy, env, one) for one in seeds])


def delayed_environment(
    name: str, settings: dict[str, Any], delay: Delay, policy: object = None
) -> gym.Env:
    """Return a named environment as a Gymnasium one, with the delay and the warm-up of training.

    Emulators look ahead if `policy` needs it.
    """
    family = family_of(name)
    environment = family.describe(name, settings) or make(name, settings)
    return family.gymnasium_form(environment, delay, policy)


def forget(policy: object) -> None:
    """Reset the memory of a policy that has one: a policy with `act` and `reset`."""
    if hasattr(policy, "act") and hasattr(policy, "reset"):
        policy.reset()


def act(policy: Acts, obs: object, info: dict[str, Any]) -> Any:
    """Return the action of a policy with `act`.

    The policy may use the prediction of an emulator, or the age that the agent knows.
    """
    ahead = [info.get("predicted_observation")] if getattr(policy, "looks_ahead", "") else []
    return policy.act(obs, info.get("pending_actions", ()), *ahead, **known_ages(policy, info))


def known_ages(policy: object, info: dict[str, Any]) -> dict[str, Any]:
    """Return the argument `ages` for a policy that needs the age that the agent knows."""
    return {"ages": info.get("action_age")} if getattr(policy, "sees_ages", False) else {}


def play(
    pool: Pool, act: Callable[[Played], np.ndarray], stopped: Callable[[], bool], longest: int
) -> Float[np.ndarray, " lanes"]:
    """Play one episode on each lane of a pool, and return the returns; NaN where it was stopped.

    An episode counts up to its `longest` number of steps. A lane rests after its episode. A lane
    whose worker died plays another episode.
    """
    played = pool.reset()
    found = np.full(len(played.age), np.nan)
    resting = np.zeros(len(found), bool)
    while not resting.all() and not stopped():
        pool.send(act(played), resting)
        played = pool.receive()
        over = (played.over | (played.age >= longest)) & ~resting
        found[over] = played.earned[over]
        resting = resting | over
    return found


def _episode(policy: AnyPolicy, env: gym.Env, seed: int) -> float:
    """Return the return of one episode."""
    obs, info = env.reset(seed=seed)
    forget(policy)
    earned, ended = 0.0, False
    while not ended:
        if hasattr(policy, "act"):
            action = act(cast("Acts", policy), obs, info)
        elif hasattr(policy, "predict"):
            action = policy.predict(obs, deterministic=True)[0]
        else:
            action = policy(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        earned += float(reward)
        if not abs(earned) <= LARGEST_RETURN:  # no record holds more, and NaN is not below it
            raise ValueError(
                f"rewards are finite numbers; {env} gave {float(reward)} in evaluation, and with "
                f"it a return of {earned}: fix the environment"
            )
        ended = terminated or truncated
    return earned
