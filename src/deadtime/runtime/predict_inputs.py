"""The arguments of `predict`: observations of `AugmentObservation`, and memories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from deadtime.runtime.lstm_cell import Memory

Observed = ArrayLike | Mapping[str, ArrayLike]
"""An observation of `AugmentObservation`: a dict, or an array."""
State = tuple[np.ndarray, ...]
"""The memory of a policy, as Stable-Baselines3 passes it."""
Row = tuple[np.ndarray, np.ndarray]
"""The observation and the pending actions of one environment."""


class Sizes(Protocol):
    """The sizes of a policy's observations, actions and queue (see `Policy`)."""

    delay: int
    num_states: int
    observation_shape: tuple[int, ...]
    num_actions: int
    action_shape: tuple[int, ...]
    needs_queue: bool


def rows_of(sizes: Sizes, shown: Observed) -> tuple[list[Row], tuple[int, ...]]:
    """Return one row per environment, and the leading axes: (n,) for a batch of n, else ().

    `shown` is a dict with "observation" and "pending_actions", one flat vector of both, or the
    observation alone if the policy needs no queue.
    """
    if isinstance(shown, Mapping) and {*shown} >= {"observation", "pending_actions"}:
        seen = np.asarray(shown["observation"])
        queue = np.asarray(shown["pending_actions"])
    else:
        seen, queue = _parts(sizes, shown)
    axes = len(sizes.observation_shape)
    lead = seen.shape[: seen.ndim - axes] if seen.ndim > axes else ()
    if not lead:
        return [(seen, queue)], ()
    if len(lead) > 1 or queue.shape[:1] != lead or lead == (0,):
        raise _refused(sizes, shown)
    return list(zip(seen, queue, strict=True)), lead


def _parts(sizes: Sizes, shown: Observed) -> tuple[np.ndarray, np.ndarray]:
    """Return the observations and the queues of flat vectors or plain observations."""
    found = np.asarray(shown)
    if _is_plain(sizes, found) and (sizes.delay == 0 or not sizes.needs_queue):
        lead = found.shape[: found.ndim - len(sizes.observation_shape)]
        return found, np.zeros((*lead, 0))
    numbers = sizes.num_states or math.prod(sizes.observation_shape)
    width = math.prod(sizes.action_shape) if sizes.action_shape else sizes.num_actions
    flat = found.ndim in (1, 2) and found.shape[-1] == numbers + width * sizes.delay
    if not flat or found.dtype.kind != "f":
        raise _refused(sizes, shown)
    seen, queue = found[..., :numbers], found[..., numbers:]
    queue = queue.reshape(*found.shape[:-1], sizes.delay, width)
    if not sizes.action_shape:
        queue = _numbered(sizes, shown, queue)
    if sizes.num_states:
        return _numbered(sizes, shown, seen), queue
    seen = seen.reshape(*found.shape[:-1], *sizes.observation_shape)
    return seen.astype(np.uint8) if seen.ndim > 2 else seen, queue


def _is_plain(sizes: Sizes, found: np.ndarray) -> bool:
    """Return whether `found` holds plain observations of the environment."""
    if sizes.num_states:
        return found.dtype.kind in "iu"
    axes = len(sizes.observation_shape)
    return found.ndim >= axes and found.shape[found.ndim - axes :] == sizes.observation_shape


def _numbered(sizes: Sizes, shown: Observed, one_hot: np.ndarray) -> np.ndarray:
    """Return the numbers of one-hot vectors."""
    numbers = one_hot.argmax(axis=-1)
    if not ((one_hot == 1).sum(axis=-1) == 1).all() or np.count_nonzero(one_hot) != numbers.size:
        raise _refused(sizes, shown)
    return numbers


def _refused(sizes: Sizes, shown: Observed) -> ValueError:
    """Return the error for an observation of the wrong form."""
    kind = type(shown).__name__
    got = f"shape {np.shape(shown)}" if isinstance(shown, np.ndarray) else f"{kind} {shown!r:.80}"
    return ValueError(
        "predict takes observations of deadtime.AugmentObservation or a batch of them, here a dict "
        f"or vector with the observation and {sizes.delay} pending actions; got {got}: "
        f"wrap the environment, AugmentObservation(ActionDelay(env, {sizes.delay}))"
    )


def memories_of(
    state: State | None,
    episode_start: ArrayLike | None,
    empty: Memory | None,
    lead: tuple[int, ...],
) -> Sequence[Memory | None]:
    """Return the memory of each row, which is `empty` at the start of an episode.

    For a policy without a memory, `empty` is None.
    """
    count = math.prod(lead)
    if empty is None:
        return [None] * count
    starts = np.asarray(False if episode_start is None else episode_start, bool).ravel()
    if len(starts) not in (1, count):
        raise ValueError(
            f"episode_start has one value per observation; got {len(starts)} for {count}: "
            "pass one for each"
        )
    if state is None:
        return [empty] * count
    shape = *lead, *empty.cell.shape
    good = isinstance(state, tuple | list) and len(state) == 2
    if not good or any(np.shape(part) != shape for part in state):
        raise ValueError(
            f"state is the memory that predict returned, two arrays of shape {shape}; "
            f"got {state!r:.80}: pass that memory, or None at the start of an episode"
        )
    cells, outputs = (np.asarray(part, np.float32).reshape(count, -1) for part in state)
    memories = map(Memory, cells, outputs)
    starts = np.broadcast_to(starts, count)
    return [empty if new else old for new, old in zip(starts, memories, strict=True)]


def joined(memories: Sequence[Memory], lead: tuple[int, ...]) -> Memory | None:
    """Return the memories of all rows as one state, or None without a memory."""
    if not memories:
        return None
    cells, outputs = zip(*memories, strict=True)
    return Memory(np.array(cells).reshape(*lead, -1), np.array(outputs).reshape(*lead, -1))
