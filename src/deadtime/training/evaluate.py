"""Returns of a policy under any delay, in any Gymnasium environment: ours, Stable-Baselines3's, a function of yours."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from jaxtyping import Float

from deadtime.agents.policy import check_game, check_place
from deadtime.envs.gym import ActionDelay
from deadtime.envs.outside import ATARI, Outside
from deadtime.experiments.spec_checks import LONGEST_EPISODE, made
from deadtime.experiments.specs import check_count

_IDS = {"maze": "deadtime/Maze-v0", "cartpole": "deadtime/NoisyCartPole-v1", "acrobot": "deadtime/NoisyAcrobot-v1"}


def evaluate(
    policy: Any, env: Any, delay: int | None = None, episodes: int = 100, seed: int = 0, **settings: Any
) -> Float[np.ndarray, " episodes"]:
    """Return the return of each of `episodes` episodes, begun with the seeds `seed`, `seed` + 1, …

    `env` is one of our names or ``gym:ID`` (with its settings; the delay is then the policy's own unless given) or a
    Gymnasium environment, on which a given `delay` is put. A policy has `act(observation, pending_actions)` and, if it has a
    memory, `reset()`; or `predict(observation, deterministic=True)` as Stable-Baselines3's have, which returns the action
    first; or it is a function of the observation. Ours are put under `delay` by their own `at_delay`, and act only where
    observations and actions are as in their training.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed is a whole number, 0 or more; got {seed!r}: each number gives one episode")
    if delay is not None and hasattr(policy, "at_delay"):
        policy = policy.at_delay(delay)
    name = env if isinstance(env, str) else ""
    if isinstance(env, str):
        check_game(policy, env)
        environment = made(env, settings)
        env = delayed_gym(env, environment, getattr(policy, "delay", 0) if delay is None else delay, policy)
    elif settings:
        raise ValueError(
            f"settings are for environments by name; got {settings} with {env}: give them to the environment itself"
        )
    elif delay is not None:
        env = ActionDelay(env, delay)
    check_place(policy, env, name)
    return np.array([_episode(policy, env, seed + i) for i in range(check_count("episodes", episodes))])


def delayed_gym(name: str, environment: Any, delay: int, policy: Any = None, **making: Any) -> Any:
    """An environment by name as a Gymnasium one under a delay, with the warm-up that training uses; its episodes end.

    Emulators look ahead if `policy` needs it.
    """
    if name.startswith(ATARI):
        from deadtime.envs.atari import AtariEnv  # noqa: PLC0415  (it takes a while to load)

        return AtariEnv(environment, delay, getattr(policy, "looks_ahead", ""))
    if isinstance(environment, Outside):
        env = environment.make(**making)
        limited = env.spec is not None and env.spec.max_episode_steps is not None
        return ActionDelay(env if limited else gym.wrappers.TimeLimit(env, LONGEST_EPISODE), delay)
    kind = name.removeprefix("noisy-")
    if kind not in _IDS:
        raise ValueError(
            f"{name} has no Gymnasium form here; these have: {', '.join(_IDS)}, gym:ID and atari:NAME: choose one of them, "
            "or in Python pass an environment of gym.make"
        )
    settings = {
        setting: getattr(environment, setting)
        for setting in ("size", "noise", "maze_seed", "perturb")
        if hasattr(environment, setting)
    }
    bare = gym.make(_IDS[kind], **settings)
    if kind != "cartpole":
        return ActionDelay(bare, delay)
    import jax  # noqa: PLC0415  (it takes a while to load)

    from deadtime.envs.cartpole import expert_warmup  # noqa: PLC0415

    plan = jax.jit(expert_warmup, static_argnums=1)
    return ActionDelay(bare, delay, warmup=lambda obs, m, rng: np.asarray(plan(obs, m, None)))


def forget(policy: Any) -> None:
    """Start an episode for a policy that has a memory: one with `act` and `reset`."""
    if hasattr(policy, "act") and hasattr(policy, "reset"):
        policy.reset()


def act(policy: Any, obs: Any, info: dict[str, Any]) -> Any:
    """What a policy with `act` chooses; one that looks ahead is given what the environment foresees."""
    ahead = [info.get("predicted_observation")] if getattr(policy, "looks_ahead", "") else []
    return policy.act(obs, info.get("pending_actions", ()), *ahead)


def _episode(policy: Any, env: Any, seed: int) -> float:
    obs, info = env.reset(seed=seed)
    forget(policy)
    earned, ended = 0.0, False
    while not ended:
        if hasattr(policy, "act"):
            action = act(policy, obs, info)
        elif hasattr(policy, "predict"):
            action = policy.predict(obs, deterministic=True)[0]
        else:
            action = policy(obs)
        obs, reward, terminated, truncated, info = env.step(action)
        if not np.isfinite(float(reward)):
            raise ValueError(f"rewards are finite numbers; {env} gave {float(reward)} in evaluation: mend the environment")
        earned, ended = earned + float(reward), terminated or truncated
    return earned
