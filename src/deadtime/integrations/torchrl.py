"""Transforms for TorchRL: late actions and late observations (extra `torchrl`).

Both transforms are appended to any environment, batched or not. The meaning of a delay, the
processes and what an agent knows of the ages are those of `deadtime.delays` and of the Gymnasium
wrappers.
"""

from __future__ import annotations

from typing import Any

from deadtime._support.extras import extras_needed
from deadtime.delays import Delay, as_process
from deadtime.integrations.torch_arrays import Ages

with extras_needed("torchrl"):
    import torch
    from tensordict import TensorDictBase
    from tensordict.utils import NestedKey, expand_as_right
    from torch import Tensor
    from torchrl.data import Bounded, Composite, TensorSpec, Unbounded
    from torchrl.envs import Transform

__all__ = ["ActionDelay", "ObservationDelay", "executed_actions"]

NOT_YET = -1
"""The age of the executed action at reset, before the first step."""


def executed_actions(
    tensordict: TensorDictBase,
    action_key: NestedKey = "action",
    pending_key: NestedKey = "pending_actions",
) -> Tensor:
    """Return the actions that the steps of a rollout executed.

    A learner of values of states needs them: the transition of a step is (observation, executed
    action, reward, next observation).
    """
    axis = tensordict.batch_dims
    chosen = tensordict.get(action_key).unsqueeze(axis)
    slots = torch.cat([tensordict.get(pending_key), chosen], axis)
    ages = tensordict.get(("next", "executed_age"), None)
    if ages is None:
        return slots.select(axis, 0)
    return _picked(slots, slots.shape[axis] - 1 - ages.squeeze(-1), axis)


def _picked(slots: Tensor, place: Tensor, axis: int) -> Tensor:
    """Return the entry `place` of an axis, one for each index of the axes before it."""
    index = place.reshape(*place.shape, *[1] * (slots.ndim - axis))
    index = index.expand(*place.shape, 1, *slots.shape[axis + 1 :])
    return slots.gather(axis, index).squeeze(axis)


class _Delay(Transform):
    """A transform with one channel for each environment of a batch."""

    def __init__(self, delay: Delay | str, **keys: Any):
        super().__init__(**keys)
        self.process = as_process(delay)
        self.delay = self.process.longest
        """The delay in steps; of a delay that varies, the longest age."""
        self._random = self.process.constant is None
        self._ages: Ages | None = None
        self._batch = torch.Size([])

    def _restarted(self, tensordict: TensorDictBase, reset: TensorDictBase) -> Tensor:
        """Draw the first ages of the episodes that begin; return the mask of their environments."""
        self._batch = batch = reset.batch_size
        mask = _reset_mask(tensordict, self.parent.reset_keys, batch, reset.device)
        if self._ages is None or self._ages.now.numel() != batch.numel():
            device = mask.device
            self._ages = Ages(self.process, batch.numel(), device)
            return torch.ones(batch, dtype=torch.bool, device=device)
        self._ages.start(mask.reshape(-1))
        return mask

    @property
    def _now(self) -> Tensor:
        """The age that the next step reads, with the shape of the batch."""
        assert self._ages is not None  # made by the first reset
        return self._ages.now.reshape(self._batch)

    def _stepped(self, tensordict: TensorDictBase) -> Tensor | None:
        """Return the mask of the environments that make this step, or None for all."""
        if self._ages is None:
            raise RuntimeError(
                "a delay begins with an episode; got a step before the first reset: call reset"
            )
        if tensordict.batch_size != self._batch:
            raise RuntimeError(
                f"a delay keeps a queue for each environment of the batch {tuple(self._batch)}; "
                f"got a step of {tuple(tensordict.batch_size)}: step all of them; to step only "
                'some, set the mask "_step"'
            )
        partial = tensordict.get("_step", None)
        return None if partial is None else partial.reshape(self._batch)

    def _reset_on_native_autoreset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        return self._reset(tensordict, tensordict_reset)

    def _age_spec(self, spec: Composite, low: int) -> TensorSpec:
        shape = (*spec.shape, 1)
        return Bounded(low, max(self.delay, 1), shape, dtype=torch.int64, device=spec.device)


def _reset_mask(
    tensordict: TensorDictBase,
    keys: list[NestedKey],
    batch: torch.Size,
    device: torch.device | None,
) -> Tensor:
    """Return which environments restart: those of "_reset", or all."""
    given = [tensordict.get(key, None) for key in keys]
    masks = [mask.reshape(*batch, -1).any(dim=-1) for mask in given if mask is not None]
    if not masks:
        return torch.ones(batch, dtype=torch.bool, device=device)
    return torch.stack(masks).any(dim=0)


class ActionDelay(_Delay):
    """Execute each action late: step t executes the action of age z_t, chosen at t - z_t.

    The environment gets these entries:

    - `pending_actions`: the last K actions, oldest first, where K is the longest age;
    - `action_age`, for a delay that varies: z_t with ``observed="now"``, z_{t-1} with
      ``"hindsight"``, none with ``"never"``;
    - `executed_age`, for a delay that varies: in "next", the age that the step read. It is for
      learners, as `executed_actions` shows.

    The entry of the action keeps the chosen action.
    """

    def __init__(
        self,
        delay: Delay | str,
        warmup: Any = "random",
        observed: str = "now",
        action_key: NestedKey = "action",
        pending_key: NestedKey = "pending_actions",
    ):
        """`delay` is a number of steps, a process of `deadtime.delays` or its text form.

        `warmup` fills the queue at reset: "random", or one action.
        """
        super().__init__(delay, in_keys_inv=[action_key], out_keys_inv=[action_key])
        if observed not in ("now", "hindsight", "never"):
            raise ValueError(
                f'observed is "now", "hindsight" or "never"; got {observed!r}: '
                'pass "now" for an agent that knows the age before it chooses'
            )
        self._observed = observed
        self._warmup = warmup
        self._action_key, self._pending_key = action_key, pending_key
        self._pending: Tensor | None = None
        self._read_age: Tensor | None = None
        self._mask: Tensor | None = None

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        mask = self._mask = self._stepped(tensordict)
        assert self._pending is not None  # made by the first reset
        axis = len(self._batch)
        action = tensordict.get(self._action_key)
        slots = torch.cat([self._pending, action.unsqueeze(axis)], axis)
        executed = _picked(slots, self.delay - self._now, axis)
        following = slots.narrow(axis, 1, self.delay)
        if mask is not None:
            following = torch.where(expand_as_right(mask, following), following, self._pending)
        self._pending = following
        return tensordict.set(self._action_key, executed)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        assert self._ages is not None  # checked before the step
        read = self._now
        self._ages.advance(None if self._mask is None else self._mask.reshape(-1))
        return self._shown(next_tensordict, read)

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        mask = self._restarted(tensordict, tensordict_reset)
        drawn = self._drawn()
        if self._pending is None or self._pending.shape != drawn.shape:
            self._pending = drawn
        else:
            self._pending = torch.where(expand_as_right(mask, drawn), drawn, self._pending)
        return self._shown(tensordict_reset, torch.full_like(self._now, NOT_YET))

    def _drawn(self) -> Tensor:
        """Return the warm-up actions of all environments, shape (batch, K, …)."""
        spec = self._action_spec()
        axis = len(self._batch)
        shape = (*spec.shape[:axis], self.delay, *spec.shape[axis:])
        if self.delay == 0:
            return torch.zeros(shape, dtype=spec.dtype, device=spec.device)
        if isinstance(self._warmup, str) and self._warmup == "random":
            return torch.stack([spec.rand() for _ in range(self.delay)], axis)
        one = torch.as_tensor(self._warmup, dtype=spec.dtype, device=spec.device)
        return one.expand(shape).clone()

    def _action_spec(self) -> TensorSpec:
        return self.parent.full_action_spec[self._action_key]

    def _shown(self, tensordict: TensorDictBase, read: Tensor) -> TensorDictBase:
        assert self._pending is not None  # made by the first reset
        tensordict.set(self._pending_key, self._pending.clone())
        if self._random:
            tensordict.set("executed_age", read.unsqueeze(-1).clone())
            if self._observed != "never":
                known = self._now if self._observed == "now" else read
                tensordict.set("action_age", known.unsqueeze(-1).clone())
        return tensordict

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the entries of the delay."""
        spec, axis = self._action_spec(), observation_spec.ndim
        shape = (*spec.shape[:axis], self.delay, *spec.shape[axis:])
        if self.delay == 0:
            queue: TensorSpec = Unbounded(shape, dtype=spec.dtype, device=spec.device)
        else:
            queue = spec.clone().unsqueeze(axis).expand(*shape)
        observation_spec[self._pending_key] = queue
        if self._random:
            observation_spec["executed_age"] = self._age_spec(observation_spec, NOT_YET)
            if self._observed != "never":
                low = 0 if self._observed == "now" else NOT_YET
                observation_spec["action_age"] = self._age_spec(observation_spec, low)
        return observation_spec


class ObservationDelay(_Delay):
    """Show late observations: at step t that of step t - w_t, with w_0 = 0 and w_t ≤ t.

    The entries `in_keys` are replaced, all with the same age. `observation_age` is w_t. Rewards and
    the ends of episodes are never delayed.
    """

    def __init__(self, delay: Delay | str, in_keys: tuple[NestedKey, ...] = ("observation",)):
        """`delay` is a number of steps, a process of `deadtime.delays` or its text form."""
        keys = list(in_keys)
        super().__init__(delay, in_keys=keys, out_keys=keys)
        self._past: list[Tensor] = []
        self._steps: Tensor | None = None

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        mask = self._stepped(tensordict)
        assert self._ages is not None  # checked by the line above
        assert self._steps is not None  # made by the first reset
        everywhere = torch.ones_like(self._now, dtype=torch.bool)
        going = everywhere if mask is None else mask
        self._ages.advance(going.reshape(-1))
        self._steps = self._steps + going
        axis = len(self._batch)
        for i, key in enumerate(self.in_keys):
            newest = next_tensordict.get(key).unsqueeze(axis)
            longer = torch.cat([self._past[i], newest], axis).narrow(axis, 1, self.delay + 1)
            self._past[i] = torch.where(expand_as_right(going, longer), longer, self._past[i])
        return self._shown(next_tensordict)

    def _reset(
        self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase
    ) -> TensorDictBase:
        first = self._steps is None
        mask = self._restarted(tensordict, tensordict_reset)
        axis = len(self._batch)
        found = [tensordict_reset.get(key).unsqueeze(axis) for key in self.in_keys]
        full = [
            one.expand(*one.shape[:axis], self.delay + 1, *one.shape[axis + 1 :]) for one in found
        ]
        if first or [one.shape for one in full] != [one.shape for one in self._past]:
            self._past = [one.clone() for one in full]
            self._steps = torch.zeros_like(self._now)
        else:
            self._past = [
                torch.where(expand_as_right(mask, new), new, old)
                for new, old in zip(full, self._past, strict=True)
            ]
            self._steps = torch.where(mask, 0, self._steps)
        return self._shown(tensordict_reset)

    def _shown(self, tensordict: TensorDictBase) -> TensorDictBase:
        assert self._steps is not None  # made by the first reset
        ages = torch.minimum(self._now, self._steps)
        axis = len(self._batch)
        for key, past in zip(self.in_keys, self._past, strict=True):
            tensordict.set(key, _picked(past, self.delay - ages, axis))
        return tensordict.set("observation_age", ages.unsqueeze(-1))

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the age of the observation."""
        observation_spec["observation_age"] = self._age_spec(observation_spec, 0)
        return observation_spec
