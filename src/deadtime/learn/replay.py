"""A ring of transitions, one row each, so that storing and sampling are one memory operation."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from deadtime.learn.program import Program

DECIDED = ("seen", "seen_queue", "next_seen", "next_seen_queue")
"""The parts of a transition that its actions were decided from, for views that project."""


class Transition(NamedTuple):
    """A transition; `queue` and `next_queue` are empty if the values do not see the queue.

    The other fields are those of views that project. `fresh` is also there for other views of
    executed actions, if ages vary.
    """

    obs: Float[Array, " D"]
    queue: Array
    action: Array
    reward: Float[Array, ""]
    next_obs: Float[Array, " D"]
    next_queue: Array
    terminated: Any
    seen: Any = None
    """The observation that the action was decided from."""
    seen_queue: Any = None
    """The queue that the action was decided from."""
    next_seen: Any = None
    """The observation that the next step's action was decided from."""
    next_seen_queue: Any = None
    first: Any = None
    """Whether the action was executed for the first time."""
    fresh: Any = None
    """Whether the next step executes another action; otherwise the same one is held."""
    known: Any = None
    """1 + the age that the agent knew when it saw the queue, 0 for none; None if it sees no ages.

    The queue is `seen_queue` of views that project, else `queue`."""
    next_known: Any = None
    """What the agent knew when it saw the next queue."""


class Replay(NamedTuple):
    """A replay buffer; of all `stored` transitions, the i-th is in row i % capacity."""

    rows: Float[Array, "capacity row"]
    stored: Int[Array, ""]


class Layout(NamedTuple):
    """The form of the transitions of a program.

    The next queue is the queue with one more action, so of the next queue a row holds only that
    action. Under a constant delay, what the next action was decided from has one more action too:
    the executed one.
    """

    observation: int
    """The length of an observation."""
    action: tuple[int, ...]
    """The shape of an action."""
    action_type: Any
    queue: int
    """The number of pending actions that values see."""
    decided: int
    """The number of pending actions that decisions see, if the view projects; otherwise -1."""
    varies: bool
    """Whether ages vary, and rows are of executed actions."""
    shows_ages: bool = False
    """Whether networks see the age that the agent knows."""

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parts of a row, by their names."""
        d = (self.observation,)
        parts: dict[str, tuple[int, ...]] = {"obs": d, "next_obs": d}
        parts |= {"action": self.action, "reward": (), "terminated": ()}
        if self.queue:
            parts |= {"queue": (self.queue, *self.action), "newest": (1, *self.action)}
        if self.decided > 0:
            decided = self.decided, *self.action
            parts |= {"seen": d, "next_seen": d, "seen_queue": decided}
            if self.varies:
                parts |= {"next_seen_queue": decided, "first": ()}
        if self.varies:
            parts |= {"fresh": ()}
        if self.shows_ages:
            parts |= {"known": (), "next_known": ()}
        return parts


def layout_of(program: Program) -> Layout:
    """Return the form of a program's transitions."""
    apart = program.projects and program.view is not None
    executed = program.view is None or program.view.credits != "chosen"
    return Layout(
        program.observation,
        program.action_shape,
        program.action_type,
        0 if apart else program.queue_room,
        program.capacity if program.projects else -1,
        program.process is not None and executed,
        program.age_inputs > 0,
    )


def new_replay(capacity: int, layout: Layout) -> Replay:
    """Return an empty replay buffer."""
    width = sum(prod(shape) for shape in layout.parts.values())
    return Replay(jnp.zeros((capacity, width)), jnp.zeros((), jnp.int32))


def store(replay: Replay, item: Transition, keep: bool | Array, layout: Layout) -> Replay:
    """Return the replay buffer with one more transition if `keep`."""
    numbers = item._asdict() | {"newest": item.next_queue[-1:]}
    row = jnp.concatenate([jnp.ravel(jnp.float32(numbers[name])) for name in layout.parts])
    slot = replay.stored % replay.rows.shape[0]
    row = jnp.where(keep, row, replay.rows[slot])
    return Replay(replay.rows.at[slot].set(row), replay.stored + keep)


def sample(replay: Replay, key: Array, batch: int, layout: Layout) -> Transition:
    """Return a batch of stored transitions, drawn with replacement."""
    held = jnp.minimum(replay.stored, replay.rows.shape[0])
    drawn = jax.random.bits(key, (batch,)) % jnp.maximum(held, 1).astype(jnp.uint32)
    return transitions(replay.rows[drawn.astype(jnp.int32)], layout)


def transitions(rows: Float[Array, "batch row"], layout: Layout) -> Transition:
    """Return the transitions of some rows of a replay buffer."""
    found: dict[str, Any] = {}
    first = 0
    for name, shape in layout.parts.items():
        part = rows[:, first : first + prod(shape)]
        found[name] = part.reshape(len(rows), *shape)
        first += prod(shape)

    def actions(name: str) -> Array:
        return found.pop(name).astype(layout.action_type)

    action = actions("action")
    empty = jnp.zeros((len(rows), 0, *layout.action), layout.action_type)
    queue = next_queue = empty
    if layout.queue:
        queue = actions("queue")
        next_queue = jnp.concatenate([queue[:, 1:], actions("newest")], axis=1)
    item = Transition(
        found["obs"],
        queue,
        action,
        found["reward"],
        found["next_obs"],
        next_queue,
        found["terminated"],
    )
    if layout.shows_ages:
        known, then = (found[name].astype(jnp.int32) for name in ("known", "next_known"))
        item = item._replace(known=known, next_known=then)
    if layout.decided < 0:
        return item._replace(fresh=found["fresh"] > 0) if layout.varies else item
    yes = jnp.ones(len(rows), bool)
    if layout.decided == 0:
        return item._replace(
            seen=item.obs,
            seen_queue=empty,
            next_seen=item.next_obs,
            next_seen_queue=empty,
            first=yes,
            fresh=yes,
        )
    decided = actions("seen_queue")
    if layout.varies:
        after = actions("next_seen_queue")
        first_time, fresh = found["first"] > 0, found["fresh"] > 0
    else:
        after = jnp.concatenate([decided[:, 1:], action[:, None]], axis=1)
        first_time = fresh = yes
    return item._replace(
        seen=found["seen"],
        seen_queue=decided,
        next_seen=found["next_seen"],
        next_seen_queue=after,
        first=first_time,
        fresh=fresh,
    )
