"""Delay buffers for batched environments of PyTorch, on any device (extra `torchrl`).

Environments such as those of Isaac Lab and mjlab step thousands of environments in one call. Each
buffer holds one item per environment and step, and reads the item of each environment's own age.
Nothing waits for the device: no value is copied to the host.

The rule is the one of `deadtime.delays`. Its wrappers do the same for Gymnasium.
"""

from __future__ import annotations

import numpy as np

from deadtime._support.extras import extras_needed
from deadtime.delays import Delay, as_process
from deadtime.integrations.endless import check_endless

with extras_needed("torchrl"):
    import torch
    from torch import Tensor

__all__ = ["ActionBuffer", "Ages", "ObservationBuffer"]


class Ages:
    """The present age of each environment, as a tensor."""

    def __init__(
        self,
        delay: Delay | str,
        count: int,
        device: torch.device | str = "cpu",
        generator: torch.Generator | None = None,
    ):
        """Begin an episode in each of `count` environments."""
        self.process = as_process(delay)
        self.longest = self.process.longest
        self.random = self.process.constant is None
        self._count = count
        self._device = torch.device(device)
        self._generator = generator
        self.now = torch.full((count,), self.longest, dtype=torch.int64, device=device)
        """The age that the next step reads, shape (count,)."""
        if self.random:
            self._make_tables()
            self.state = torch.zeros(count, dtype=torch.int64, device=device)
            self.start(torch.ones(count, dtype=torch.bool, device=device))

    def _make_tables(self) -> None:
        check_endless(self.process)
        tables = self.process.chain.host_tables

        def tensor(values: object, dtype: torch.dtype) -> Tensor:
            return torch.tensor(np.asarray(values), dtype=dtype, device=self._device)

        size, width = self.process.chain.size, tables.width
        self._first = tensor(tables.first, torch.int64)
        self._first_cumulative = tensor(tables.first_cumulative, torch.float32)
        self._cumulative = tensor(tables.cumulative, torch.float32).reshape(size, width - 1)
        self._successors = tensor(tables.successors, torch.int64).reshape(size, width)
        self._ages = tensor(tables.ages, torch.int64)

    def start(self, mask: Tensor) -> None:
        """Begin an episode in the environments of `mask`."""
        if self.random:
            reached = self._draw()[:, None] >= self._first_cumulative
            self._go(torch.where(mask, self._first[reached.sum(dim=1)], self.state))

    def advance(self, mask: Tensor | None = None) -> None:
        """Go to the next step in the environments of `mask`, or in all."""
        if self.random:
            place = torch.zeros_like(self.state)
            if self._successors.shape[1] > 1:
                place = (self._draw()[:, None] >= self._cumulative[self.state]).sum(dim=1)
            following = self._successors[self.state, place]
            self._go(following if mask is None else torch.where(mask, following, self.state))

    def _go(self, state: Tensor) -> None:
        self.state = state
        self.now = self._ages[state]

    def _draw(self) -> Tensor:
        return torch.rand(self._count, device=self._device, generator=self._generator)


class _Ring:
    """The last K + 1 items of each environment.

    A reset writes no items: the steps since then say which items are of the present episode.
    """

    def __init__(self, delay: Delay | str, like: Tensor, generator: torch.Generator | None = None):
        """Make a buffer for items of the shape, type and device of `like`, one per environment."""
        self.ages = Ages(delay, like.shape[0], like.device, generator)
        self._length = self.ages.longest + 1
        self._slots = like.new_zeros((self._length, *like.shape))
        self._lanes = torch.arange(like.shape[0], device=like.device)
        self._steps = torch.zeros_like(self._lanes)
        self._head = 0

    def reset(self, mask: Tensor | None = None) -> None:
        """Begin an episode in the environments of `mask`, or in all."""
        if mask is None:
            mask = torch.ones_like(self._lanes, dtype=torch.bool)
        self._steps = torch.where(mask, 0, self._steps)
        self.ages.start(mask)

    def _store(self, items: Tensor) -> None:
        self._head = (self._head + 1) % self._length
        self._slots[self._head] = items

    def _read(self, ages: Tensor) -> Tensor:
        return self._slots[(self._head - ages) % self._length, self._lanes]

    def _advance(self) -> None:
        self._steps = self._steps + 1
        self.ages.advance()


class ActionBuffer(_Ring):
    """The pending actions of each environment."""

    def __init__(
        self,
        delay: Delay | str,
        like: Tensor,
        warmup: Tensor | float = 0.0,
        generator: torch.Generator | None = None,
    ):
        """Make a buffer for actions such as `like`, of shape (environments, …).

        `delay` is a number of steps, a process of `deadtime.delays` or its text form. `warmup` is
        the action that is pending at reset, or K of them along the first axis, oldest first.
        """
        super().__init__(delay, like, generator)
        given = torch.as_tensor(warmup, dtype=like.dtype, device=like.device)
        self._warmup = given.expand((self._length - 1, *like.shape[1:]))
        self._same = given.ndim < like.ndim

    @property
    def pending(self) -> Tensor:
        """The K pending actions, oldest first, shape (environments, K, …)."""
        longest = self._length - 1
        places = torch.arange(longest, device=self._lanes.device)
        chosen = self._slots[(self._head + 2 + places) % self._length].transpose(0, 1)
        step = self._steps[:, None] + places - longest
        if not longest:
            return chosen
        return torch.where(_wide(step >= 0, chosen), chosen, self._of_warmup(longest + step))

    def push(self, actions: Tensor) -> Tensor:
        """Return the actions to execute now; `actions` join the end of the queues."""
        self._store(actions)
        ages = self.ages.now
        if not self.ages.random:
            executed = self._slots[(self._head + 1) % self._length].clone()
        else:
            executed = self._read(ages)
        if self._length > 1:
            step = self._steps - ages
            warm = self._of_warmup(self._length - 1 + step)
            executed = torch.where(_wide(step >= 0, executed), executed, warm)
        self._advance()
        return executed

    def _of_warmup(self, places: Tensor) -> Tensor:
        """Return the warm-up actions at `places`, or the only one."""
        if self._same:
            return self._warmup[0]
        return self._warmup[places.clamp(0, self._length - 2)]


class ObservationBuffer(_Ring):
    """The last observations of each environment.

    The first observation pushed after a reset is the first one of the episode, and is shown at
    once.
    """

    def __init__(self, delay: Delay | str, like: Tensor, generator: torch.Generator | None = None):
        """Make a buffer for observations such as `like`, of shape (environments, …)."""
        super().__init__(delay, like, generator)
        self.shown_ages = torch.zeros_like(self._lanes)
        """The ages of the observations that the last `push` returned."""

    def push(self, observations: Tensor) -> Tensor:
        """Return the observations to show now, w_t ≤ t steps old."""
        self._store(observations)
        self.shown_ages = torch.minimum(self.ages.now, self._steps)
        shown = self._read(self.shown_ages)
        self._advance()
        return shown


def _wide(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask with as many axes as `like`."""
    return mask.reshape(*mask.shape, *[1] * (like.ndim - mask.ndim))
