"""Gymnasium environments: the environment outside, under the library's own `ActionDelay`, and the learner compiled.

A run has `envs` environments side by side and one learner. A step of all of them is one compiled call, which learns from what
the last step gave (a transition stored and an update for each environment) and chooses the next actions, so that numbers
cross to the compiled program once and come back once. Each environment is a scalar one: Gymnasium's SyncVectorEnv would step
them in turn as well, at twice the price for eight and six times for one. The program runs on the CPU even where there is a
GPU: networks of this size are a chain of small operations, and a step would wait for each to be launched.

Random numbers of the learner come from the run's key folded with the step, as in `fused`; an environment's seed comes from the
run's. A Gymnasium environment can't be saved in general: a run that goes on from a checkpoint has its learner and replay to
the bit, but begins new episodes there, and its record says at which step (`resumed_at`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from threading import Event
from time import monotonic, perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from deadtime._support.timeouts import StepTimeoutError
from deadtime.learn import checkpoint
from deadtime.learn.deep_q import choose, learn, new_learner, policy_arrays, transition
from deadtime.learn.evaluate import LARGEST_RETURN, evaluate
from deadtime.learn.outcome import Outcome, deep_outcome, status_of
from deadtime.learn.program import Numbers, Program, Run, Setup, compiled, flags_of, split_settings
from deadtime.learn.replay import new_replay
from deadtime.learn.run_spec import DeepRun
from deadtime.learn.views import VIEWS
from deadtime.runtime.manifest import Manifest
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.wrappers.scalar import ActionDelay

Progress = Callable[[int], None]
_WRITE_EVERY_SECONDS = 60.0
_TELL_EVERY_SECONDS = 0.2


class Given(NamedTuple):
    """What a step of the environments gave, a row each."""

    chosen: Int[np.ndarray, " n"]
    executed: Int[np.ndarray, " n"]
    reward: Float[np.ndarray, " n"]
    terminated: Bool[np.ndarray, " n"]
    ended: Bool[np.ndarray, " n"]
    after: Float[np.ndarray, "n D"]
    """What the step led to: of an episode that ended, its last observation."""
    queue_after: Int[np.ndarray, "n m"]
    obs: Float[np.ndarray, "n D"]
    """What is seen now: the same, or the next episode's first observation."""
    queue: Int[np.ndarray, "n m"]


class Stand(NamedTuple):
    """Where a run stands."""

    run: Run
    steps: int
    ended: list[list[float]]
    """(step, return) of each episode that ended."""
    resumed_at: list[int]
    begun: float
    """When it began, if it had never been interrupted (of `perf_counter`)."""


class Lanes:
    """Environments side by side, each under its delay; an episode that ends is followed by the next."""

    def __init__(self, envs: list[Any], name: str):
        """`envs` have `ActionDelay` around them; `name` is for errors."""
        self._envs, self._name = envs, name
        self._seen: list[tuple[np.ndarray, np.ndarray]] = []
        self._earned = [0.0] * len(envs)

    def reset(self, seeds: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Begin episodes everywhere: observations and queues."""
        begun = [env.reset(seed=seed) for env, seed in zip(self._envs, seeds, strict=True)]
        self._seen = [self._view(obs, info) for obs, info in begun]
        self._earned = [0.0] * len(self._envs)
        return _rows(self._seen)

    def step(self, chosen: np.ndarray) -> tuple[Given, list[tuple[int, float]]]:
        """One step of each; also the environments whose episodes ended, with their returns."""
        after, facts, finished = [], [], []
        for i, env in enumerate(self._envs):
            obs, reward, terminated, truncated, info = env.step(int(chosen[i]))
            self._seen[i] = self._view(obs, info)
            after.append(self._seen[i])
            ended, reward = bool(terminated or truncated), float(reward)
            if not abs(reward) <= LARGEST_RETURN:  # the learner computes in single precision
                raise ValueError(f"rewards are finite numbers; {self._name} gave {reward}: mend the environment")
            facts.append((info["executed_action"], reward, bool(terminated), ended))
            self._earned[i] += reward
            if ended:
                finished.append((i, self._earned[i]))
                self._earned[i] = 0.0
                self._seen[i] = self._view(*env.reset())
        executed, rewards, over, ends = zip(*facts, strict=True)
        numbers = np.asarray(chosen, np.int32), np.array(executed, np.int32), np.array(rewards, np.float32)
        return Given(*numbers, np.array(over), np.array(ends), *_rows(after), *_rows(self._seen)), finished

    def _view(self, obs: Any, info: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        seen = np.array(obs, np.float32)
        if not np.isfinite(seen).all():
            raise ValueError(f"observations are finite numbers; {self._name} gave {obs!r}: mend the environment, or wrap it")
        return seen, info["pending_actions"]

    def close(self) -> None:
        """Close them all."""
        for env in self._envs:
            env.close()


def _rows(seen: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return np.stack([obs for obs, _ in seen]), np.stack([queue for _, queue in seen]).astype(np.int32)


def program_of(spec: DeepRun) -> Program:
    """What a spec's learner is compiled for: its view and a queue as long as its delay."""
    return Program(spec.environment(0), VIEWS[spec.agent], split_settings(spec.learner)[0], spec.delay)


def setup_of(spec: DeepRun, seed: int) -> Setup:
    """What a run is told."""
    numbers = Numbers(*(jnp.float32(value) for value in split_settings(spec.learner)[1]))
    flags = jax.tree.map(jnp.asarray, flags_of(VIEWS[spec.agent]))
    return Setup(jax.random.key(seed), jnp.int32(spec.delay), (), jnp.int32(spec.length), numbers, flags)


def begin(program: Program, setup: Setup, envs: int) -> Run:
    """A run that has seen nothing; what belongs to an environment has a row for each."""
    key_learner, _ = jax.random.split(jax.random.fold_in(setup.key, 0))
    learner = compiled(new_learner, static_argnums=0)(program, setup, key_learner)
    replay = new_replay(program.settings.replay_transitions, program.observation, program.queue_room)
    obs, queue = np.zeros((envs, program.observation), np.float32), np.zeros((envs, program.capacity), np.int32)
    none = jnp.zeros(0)
    run = Run((), none, none, none, none, jnp.zeros(envs), learner, replay, jnp.full((), -1, jnp.int32))
    return begun(program, run, obs, queue)


def begun(program: Program, run: Run, obs: np.ndarray, queue: np.ndarray) -> Run:
    """The same run at the beginning of new episodes."""
    assert program.view is not None
    past = program.capacity + 1 if program.view.credits == "shifted" else 0
    history, age = jnp.tile(obs[:, None], (1, past, 1)), jnp.zeros(len(obs), jnp.int32)
    return run._replace(obs=jnp.array(obs), queue=jnp.array(queue), history=history, age=age)


def _choose_all(program: Program, setup: Setup, run: Run, t: Array) -> Int[Array, " n"]:
    """An action for each environment at its step: t, t + 1, …"""

    def one(t: Array, obs: Array, queue: Array) -> Array:
        key_explore, _, key_model, *_ = _keys(setup, t)
        return choose(program, setup, run._replace(obs=obs, queue=queue), key_model, key_explore)

    return jax.vmap(one)(t + jnp.arange(len(run.obs)), run.obs, run.queue)


def _keys(setup: Setup, t: Array) -> Array:
    """Those of `fused`: explore, environment, model, batch, reset."""
    return jax.random.split(jax.random.fold_in(setup.key, t + 1), 5)


def _learn_and_choose(program: Program, setup: Setup, run: Run, given: Given, t: Array) -> tuple[Run, Int[Array, " n"]]:
    """Learn from the steps t, t + 1, … that the environments have just made, and choose their next actions."""
    n = len(given.chosen)

    def one(shared: Run, row: Any) -> tuple[Run, None]:
        t, (obs, queue, history, age), new = row
        mine = shared._replace(obs=obs, queue=queue, history=history, age=age)
        item, valid = transition(
            program, setup, mine, new.executed, new.chosen, new.reward, new.after, new.queue_after, new.terminated
        )
        learned = learn(program, setup, mine, item, valid, t, _keys(setup, t)[3])
        return shared._replace(learner=learned.learner, replay=learned.replay, diverged_at=learned.diverged_at), None

    rows = (t + jnp.arange(n), (run.obs, run.queue, run.history, run.age), given)
    run, _ = jax.lax.scan(one, run, rows)
    history = run.history
    if history.shape[1]:
        moved = jnp.concatenate([history[:, 1:], given.after[:, None]], axis=1)
        history = jnp.where(given.ended[:, None, None], given.obs[:, None], moved)
    age = jnp.where(given.ended, 0, run.age + 1)
    run = run._replace(obs=jnp.asarray(given.obs), queue=jnp.asarray(given.queue), history=history, age=age)
    return run, _choose_all(program, setup, run, t + n)


@cache
def functions(program: Program) -> tuple[Any, Any]:
    """The two functions of a program, found without hashing it at every step: choose; learn and choose."""
    return compiled(partial(_choose_all, program)), compiled(partial(_learn_and_choose, program), donate_argnums=1)


def environments(spec: DeepRun) -> Lanes:
    """Those of a spec, side by side."""
    environment = spec.environment(0)
    return Lanes([ActionDelay(environment.make(), spec.delay) for _ in range(spec.envs)], spec.env)


def seeds_of(seed: int, step: int, count: int) -> list[int]:
    """The seeds of a run's environments that begin at a step."""
    return [int(one) for one in np.random.SeedSequence([seed, step, 0x905]).generate_state(count)]


def run_host(
    spec: DeepRun, seed: int, progress: Progress, stop: Event, keep_policies: bool, checkpoints: Path | None
) -> list[tuple[DeepRun, Outcome]]:
    """Train a run; return its outcome. A run that was stopped has none, but a checkpoint."""
    path = None if checkpoints is None else checkpoints / f"{_run_id(spec, seed)}.safetensors"
    with jax.default_device(jax.devices("cpu")[0]), closing(environments(spec)) as lanes:
        program, setup = program_of(spec), setup_of(spec, seed)
        at = _started(program, setup, spec, path)
        progress(min(at.steps, spec.length))
        at = _trained(program, setup, spec, seed, lanes, at, progress, stop, path)
        if at.steps < spec.length:
            return []
        try:
            outcome = _outcome(program, spec, seed, at, keep_policies)
        except (StepTimeoutError, ValueError):  # what was learned is kept, for an environment that is mended
            _write(path, at)
            raise
    if path is not None and stop.is_set():
        _write(path, at)
        return []
    return [(spec, outcome)]


def _run_id(spec: DeepRun, seed: int) -> str:
    return hashlib.sha256(f"host {spec.id} {seed}".encode()).hexdigest()[:16]


def _started(program: Program, setup: Setup, spec: DeepRun, path: Path | None) -> Stand:
    """The beginning, or what the checkpoint holds."""
    run = begin(program, setup, spec.envs)
    if path is None or not path.exists():
        return Stand(run, 0, [], [], perf_counter())
    run, arrays, about = checkpoint.load(path, run, {"ended": np.zeros((0, 2))}, checkpoint.Extent(spec.length, spec.envs))
    resumed_at = [*about["resumed_at"], about["steps"]]
    return Stand(run, about["steps"], arrays["ended"].tolist(), resumed_at, perf_counter() - about["seconds"])


def _trained(
    program: Program,
    setup: Setup,
    spec: DeepRun,
    seed: int,
    lanes: Lanes,
    at: Stand,
    progress: Progress,
    stop: Event,
    path: Path | None,
) -> Stand:
    """Where the run stands at its end, or when it was told to stop."""
    run, done, ended, *_ = at
    run = begun(program, run, *lanes.reset(seeds_of(seed, done, spec.envs)))
    first, learn_and_choose = functions(program)
    action, told, written, untold = first(setup, run, np.int32(done)), monotonic(), monotonic(), 0
    while done < spec.length and not stop.is_set():
        try:
            given, finished = lanes.step(np.asarray(action))
        except StepTimeoutError:
            _write(path, at._replace(run=run, steps=done))
            raise
        run, action = learn_and_choose(setup, run, given, np.int32(done))
        ended += [[done + i, earned] for i, earned in finished if done + i < spec.length]
        untold += min(spec.envs, spec.length - done)
        done += spec.envs
        if monotonic() - told > _TELL_EVERY_SECONDS:
            progress(untold)
            told, untold = monotonic(), 0
        if monotonic() - written > _WRITE_EVERY_SECONDS and done < spec.length:
            _write(path, at._replace(run=run, steps=done))
            written = monotonic()
    progress(untold)
    at = at._replace(run=run, steps=done)
    if done < spec.length:
        _write(path, at)
    return at


def _write(path: Path | None, at: Stand) -> None:
    """Write a checkpoint, if there is a place for it and anything to go on from."""
    if path is None or not at.steps:
        return
    about = {"steps": at.steps, "resumed_at": at.resumed_at, "seconds": perf_counter() - at.begun}
    checkpoint.save(path, at.run, {"ended": np.array(at.ended, np.float64).reshape(-1, 2)}, about)


def _outcome(program: Program, spec: DeepRun, seed: int, at: Stand, keep_policies: bool) -> Outcome:
    """Evaluate a run on episodes that no training began with; return its outcome."""
    arrays = policy_arrays(at.run.learner, program.capacity)
    manifest = Manifest(
        spec.agent,
        VIEWS[spec.agent].sees,
        spec.delay,
        observation_shape=arrays["inputs/mean"].shape,
        actions=program.env.num_actions,
        capacity=program.capacity,
        model=spec.learner.model,
        members=spec.learner.members,
        one_hot_queue=spec.learner.one_hot_queue,
    )
    policy = NetworkPolicy(manifest, arrays)
    held_out = int(np.random.SeedSequence([seed, 0xE7A1]).generate_state(1)[0])

    def score_at(delay: int) -> float:
        with closing(spec.family.gymnasium_form(program.env, delay)) as env:
            return float(evaluate(policy.at_delay(delay), env, episodes=spec.evaluation_episodes, seed=held_out).mean())

    return deep_outcome(
        spec,
        seed,
        np.array(at.ended, np.float64).reshape(-1, 2),
        score=score_at(spec.delay),
        status=status_of(at.run.learner, int(at.run.diverged_at)),
        seconds=perf_counter() - at.begun,
        policy=arrays if keep_policies else {},
        others=np.array([score_at(delay) for delay in spec.evaluation_delays], np.float32),
        device=f"CPU, {os.cpu_count()} cores",
        notes={"capacity": program.capacity} | ({"resumed_at": at.resumed_at} if at.resumed_at else {}),
    )
