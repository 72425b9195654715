"""The recurrent baseline in one compiled program: actors with queues, an LSTM that is told nothing of the delay, A2C.

A turn is a rollout of every actor of a run and one update. It is written for one run and mapped over runs outside, as
`fused` is, and shares with it how episodes begin and how they are scored. All random numbers come from the run's key folded
with the environment step, counted over the actors, so chunks of any number of turns give the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from deadtime.delays.convention import push
from deadtime.learn.a2c import ActorCritic, Memory, forget, new_actor_critic, nothing, returns, rollout_loss, shortened
from deadtime.learn.compiled_loop import Ahead, held_out, start
from deadtime.learn.deep_q import learning_rate
from deadtime.learn.program import Setup, compiled
from deadtime.learn.settings import A2C


@dataclass(frozen=True)
class Program:
    """What is compiled once."""

    env: Any
    """A functional environment with its default parameters; runs bring their own."""
    settings: A2C
    capacity: int

    @property
    def stride(self) -> int:
        """Environment steps of one turn."""
        return self.settings.actors * self.settings.rollout


class Numbers(NamedTuple):
    """The settings that may differ between runs of one program, named as in `A2C`."""

    learning_rate: Any
    learning_rate_fall: Any
    discount: Any
    value_weight: Any
    entropy_weight: Any
    gradient_norm: Any
    reward_scale: Any
    shaped: Any


class Learner(NamedTuple):
    """All that learning changes."""

    net: ActorCritic
    moments: Any


class Actor(NamedTuple):
    """One environment of a run between two steps."""

    env: Any
    obs: Float[Array, " D"]
    queue: Int[Array, " C"]
    memory: Memory
    earned: Float[Array, ""]


class Run(NamedTuple):
    """One run between two turns; its actors are stacked on the first axis."""

    actors: Actor
    learner: Learner
    diverged_at: Int[Array, ""]
    """The step at which a loss was no longer finite; -1 if it never happened."""


class Step(NamedTuple):
    """What an actor did and what came of it."""

    obs: Float[Array, " D"]
    action: Int[Array, ""]
    reward: Float[Array, ""]
    terminated: Array
    ended: Array
    after: Float[Array, ""]
    """The value of the observation that the step led to, before any reset."""


def begin(program: Program, setup: Setup) -> Run:
    """A run before its first turn."""
    key_net, key_env = jax.random.split(jax.random.fold_in(setup.key, 0))
    space = program.env.observation_space(program.env.default_params)
    net = new_actor_critic(key_net, int(space.shape[0]), program.env.num_actions, program.settings)

    def actor(i: Array) -> Actor:
        begun = start(program, setup, jax.random.fold_in(key_env, i))
        return Actor(*begun, nothing(program.settings.lstm), jnp.zeros(()))

    actors = jax.vmap(actor)(jnp.arange(program.settings.actors))
    return Run(actors, Learner(net, _rms(program).init(net)), jnp.full((), -1, jnp.int32))


def _rms(program: Program) -> optax.GradientTransformation:
    settings = program.settings
    return optax.scale_by_rms(settings.rms_decay, settings.rms_epsilon, initial_scale=settings.rms_start)


def ahead(program: Program, setup: Setup, t: Int[Array, ""]) -> Ahead:
    """What environment step t needs and learning can't change, as in `fused`."""
    *keys, key_start = jax.random.split(jax.random.fold_in(setup.key, t + 1), 3)
    return Ahead(t, jnp.stack(keys), start(program, setup, key_start))


def step(program: Program, setup: Setup, net: ActorCritic, actor: Actor, now: Ahead) -> tuple[Actor, Step, Array]:
    """One step of one actor; also the episode's return if it ended, else NaN."""
    t, (key_action, key_env) = now.t, now.keys
    memory, logits, _ = net(actor.memory, actor.obs)
    action = jax.random.categorical(key_action, logits)
    executed, queue = push(actor.queue, action, setup.delay)
    obs, env, reward, terminated, _ = program.env.step_env(key_env, actor.env, executed, setup.params)
    ended, earned = terminated | program.env.is_truncated(env, setup.params), actor.earned + reward
    if hasattr(program.env, "shaped_reward"):
        reward = jnp.where(setup.numbers.shaped, program.env.shaped_reward(obs), reward)
    reward = setup.numbers.reward_scale * reward
    done = Step(actor.obs, action, reward, terminated, ended, net(memory, obs)[2])
    env, obs, queue = jax.tree.map(lambda new, old: jnp.where(ended, new, old), now.start, (env, obs, queue))
    actor = Actor(env, obs, queue, forget(memory, ended), jnp.where(ended, 0.0, earned))
    return actor, done, jnp.where(ended & (t < setup.steps), earned, jnp.nan)


def turn(program: Program, setup: Setup, run: Run, now: Ahead) -> tuple[Run, Float[Array, " stride"]]:
    """A rollout (`now`: a row a step, an entry an actor), an update if it was whole, and the returns of episodes that ended."""
    every = jax.vmap(partial(step, program, setup, run.learner.net))

    def all_actors(actors: Actor, now: Ahead) -> tuple[Actor, tuple[Step, Array]]:
        actors, done, earned = every(actors, now)
        return actors, (done, earned)

    actors, (rollout, earned) = jax.lax.scan(all_actors, run.actors, now)
    last = now.t[-1, -1]
    learner, finite = updated(program, setup, run.learner, run.actors.memory, rollout, last)
    usable = (last < setup.steps) & (run.diverged_at < 0)
    learner = jax.tree.map(lambda new, old: jnp.where(usable & finite, new, old), learner, run.learner)
    return Run(actors, learner, jnp.where(usable & ~finite, last, run.diverged_at)), earned.ravel()


def updated(program: Program, setup: Setup, learner: Learner, memory: Memory, rollout: Step, t: Array) -> tuple[Learner, Any]:
    """One step of gradient descent from the rollouts of all actors (time first); also says whether all was finite."""
    numbers, mine = setup.numbers, jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), rollout)

    def loss(net: ActorCritic) -> Array:
        def one(memory: Memory, done: Step) -> Array:
            gained = returns(done.reward, done.after, done.terminated, done.ended, numbers.discount)
            weights = numbers.value_weight, numbers.entropy_weight
            return rollout_loss(net, memory, done.obs, done.action, gained, done.ended, *weights)

        return jax.vmap(one)(memory, mine).mean()

    value, gradient = jax.value_and_grad(loss)(learner.net)
    gradient, norm = shortened(gradient, numbers.gradient_norm)
    change, moments = _rms(program).update(gradient, learner.moments)
    rate = learning_rate(setup, t)
    net = jax.tree.map(lambda weight, by: weight - rate * by, learner.net, change)
    return Learner(net, moments), jnp.isfinite(value) & jnp.isfinite(norm)


@partial(compiled, static_argnums=(0, 4), donate_argnums=(2,))
def run_chunk(
    program: Program, setups: Setup, runs: Run, first: Int[Array, ""], length: int
) -> tuple[Run, Float[Array, "length runs"]]:
    """`length` environment steps (whole turns) of every run from step `first` on, as `fused.run_chunk`."""

    def all_runs(runs: Run, now: Ahead) -> tuple[Run, Array]:
        return jax.vmap(partial(turn, program))(setups, runs, now)

    at = jax.vmap(partial(ahead, program), in_axes=(0, None))
    every = jax.vmap(at, in_axes=(None, 0))(setups, first + jnp.arange(length))
    shape = length // program.stride, program.settings.rollout, program.settings.actors, len(setups.delay)
    every = jax.tree.map(lambda leaf: jnp.moveaxis(leaf.reshape(*shape, *leaf.shape[2:]), 3, 1), every)
    runs, earned = jax.lax.scan(all_runs, runs, every)
    return runs, jnp.swapaxes(earned, 1, 2).reshape(length, -1)


@partial(compiled, static_argnums=(0,))
def begin_all(program: Program, setups: Setup) -> Run:
    """Every run before its first turn."""
    return jax.vmap(partial(begin, program))(setups)


@partial(compiled, static_argnums=(0, 3, 4))
def evaluate_all(
    program: Program, setups: Setup, learners: Learner, episodes: int, limit: int
) -> Float[Array, "runs episodes"]:
    """The plain return of each episode of each run, as `fused.evaluate_all`; the likeliest action is chosen."""

    def one_run(setup: Setup, learner: Learner) -> Array:
        def decide(memory: Memory, env: Any, obs: Array, queue: Array, key: Array) -> tuple[Memory, Array]:
            memory, logits, _ = learner.net(memory, obs)
            return memory, jnp.argmax(logits)

        return held_out(program, setup, decide, nothing(program.settings.lstm), episodes, limit)

    return jax.vmap(one_run)(setups, learners)


def policy_arrays(learner: Learner, capacity: int) -> dict[str, np.ndarray]:
    """All that acting needs; the queue, and its room, is nothing to this agent."""
    net, lstm = learner.net, learner.net.lstm
    arrays: dict[str, Any] = {"lstm/input": lstm.from_input, "lstm/output": lstm.from_output, "lstm/bias": lstm.bias}
    for i, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        arrays |= {f"layer/{i}/weight": weight, f"layer/{i}/bias": bias}
    for i, norm in enumerate(lstm.norms or ()):
        arrays |= {f"norm/{i}/gain": norm.gain, f"norm/{i}/shift": norm.shift}
    return jax.tree.map(np.asarray, arrays)
