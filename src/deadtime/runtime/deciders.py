"""The decisions of a controller, by the kind of its policy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from deadtime.runtime.lstm_cell import Memory
from deadtime.runtime.network_policy import NetworkPolicy
from deadtime.runtime.policy import Policy


class Decider(Protocol):
    """A policy's decisions in one episode."""

    def __call__(self, observation: np.ndarray, queue: np.ndarray, age: int | None) -> Any:
        """Return the action; raise if there is none.

        The observation is valid. The queue has the actions that are executed from the observation
        on. `age` is the age of the action that is executed now, if it is known.
        """

    def reset(self) -> None:
        """Start an episode."""


class NetworkDecider:
    """The decisions of a network, with its memory if it has one."""

    def __init__(self, policy: NetworkPolicy):
        """Allocate the arrays of a decision."""
        self._policy = policy
        self._is_box = bool(policy.action_shape)
        self._outputs = policy.decision().outputs
        self._memory: Memory | None = None
        self.reset()

    def __call__(self, observation: np.ndarray, queue: np.ndarray, age: int | None) -> Any:
        """Return the action; raise if the network's outputs are not numbers."""
        known = self._policy.known(age)
        found, self._memory = self._outputs(observation, queue, self._memory, known)
        if self._is_box:
            return found
        best = found.argmax()
        if found[best] != found[best]:
            rule = "the outputs of a network are numbers"
            raise ValueError(f"{rule}; got {found}: train it again")
        return best

    def reset(self) -> None:
        """Clear the memory."""
        self._memory = self._policy._empty_memory()


class ActDecider:
    """The decisions of any policy by its method `act`, at each length that the queue may have."""

    def __init__(self, policy: Policy):
        """Take a copy of the policy."""
        self._delay = policy.delay
        self._at = {policy.delay: policy.at_delay(policy.channel)}

    def __call__(self, observation: np.ndarray, queue: np.ndarray, age: int | None) -> Any:
        """Return the action."""
        count = len(queue)
        if count not in self._at:
            self._at[count] = self._at[self._delay].at_delay(count)
        policy = self._at[count]
        ages = {"ages": age} if policy.sees_ages else {}
        return policy.act(observation, queue, **ages)

    def reset(self) -> None:
        """Start an episode."""
        for policy in self._at.values():
            policy.reset()


def decider_of(policy: Policy) -> Decider:
    """Return the decisions of a policy, or raise if it needs an environment."""
    if policy.looks_ahead:
        raise ValueError(
            f"a Controller runs policies that need no emulator; got {policy!r}, which looks ahead "
            "with one: train an agent such as augmented"
        )
    if isinstance(policy, NetworkPolicy) and not policy.follows_ways:
        return NetworkDecider(policy)
    return ActDecider(policy)
