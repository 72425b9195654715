"""The registry of learners. An agent is a learner with a view (see `runtime.views`).

Nothing here imports JAX. `Learner.load` imports the code of a learner (see `learner_code`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np

from deadtime.envs.family import ActionKind, Family, ObservationKind
from deadtime.learn import manifests
from deadtime.learn.settings import A2C, SAC, DoubleQ, PixelA2C, PixelQ, QLearning
from deadtime.runtime.views import BUILT_IN, VIEWS, Credits, Sees, View


@dataclass(frozen=True)
class Learner:
    """A kind of learner: its settings, the environments and views that suit it, and its code."""

    settings: Any
    """The dataclass of its settings."""
    code: str
    """The object with its code, as "module:name" (see `learner_code.LearnerCode`)."""
    sees: tuple[Sees, ...]
    """The kinds of views that it can have."""
    manifest: Callable[[Any, dict[str, np.ndarray]], dict[str, Any]]
    """The function that returns a manifest's fields from a spec and the arrays of a policy."""
    credits: tuple[Credits, ...] = ("chosen", "executed", "shifted")
    loops: tuple[str, ...] = ("compiled", "host")
    """The loops that can train it (see `Family.loop`)."""
    frames: bool = False
    """Whether it learns from stacks of frames; otherwise from numbers."""
    action_kinds: tuple[ActionKind, ...] = ("numbered",)
    """The kinds of actions that it can choose."""
    own_inputs: bool = False
    """Whether it can have a view with inputs of its own (see `views.Shown`)."""
    mixes_views: bool = False
    """Whether runs of several delays and views can share a compiled program, as on a GPU."""
    mixes_outside: bool = False
    """The same for environments outside the program; views that project are included there."""
    offline: bool = False
    """Whether it can solve a model after a phase of random actions."""
    projects: bool = False
    """Whether it can have a view that decides and values from different inputs."""
    version: int = 1
    """The version of its results; raise it when a change of the learner changes them."""

    def load(self) -> Any:
        """Import and return the code of the learner."""
        module, _, name = self.code.partition(":")
        return getattr(import_module(module), name)

    def works_in(
        self, family: Family, action_kind: ActionKind, observation_kind: ObservationKind
    ) -> bool:
        """Return whether a family's environments of these kinds suit this learner."""
        if family.loop not in self.loops or action_kind not in self.action_kinds:
            return False
        return observation_kind == ("frames" if self.frames else "numbers")

    def can_have(self, view: View, looks_ahead: bool = False) -> bool:
        """Return whether this learner can have a view; frames are predicted by looking ahead."""
        if view.predicts and self.frames and not looks_ahead:
            return False
        if view.shown is not None and not self.own_inputs:
            return False
        if view.solves_offline and not self.offline:
            return False
        if view.projects and not self.projects:
            return False
        return view.sees in self.sees and view.credits in self.credits


_DECIDING: tuple[Sees, ...] = ("state", "queue", "prediction")
LEARNERS: dict[str, Learner] = {
    "q-table": Learner(
        QLearning,
        "deadtime.learn.tabular_q:run_episodes",
        ("state", "queue", "prediction", "law"),
        manifests.of_table,
        loops=("tabular",),
        offline=True,
        projects=True,
    ),
    "double-q": Learner(
        DoubleQ,
        "deadtime.learn.deep_q:DEEP_Q",
        _DECIDING,
        manifests.of_deep_q,
        own_inputs=True,
        mixes_views=True,
        projects=True,
    ),
    "a2c": Learner(
        A2C,
        "deadtime.learn.actor_critic:ACTOR_CRITIC",
        ("history",),
        manifests.of_actor_critic,
        action_kinds=("numbered", "box"),
        mixes_views=True,
    ),
    "sac": Learner(
        SAC,
        "deadtime.learn.sac:SOFT_ACTOR_CRITIC",
        _DECIDING,
        manifests.of_sac,
        ("chosen", "executed"),
        action_kinds=("box",),
        mixes_outside=True,
        projects=True,
    ),
    "pixel-q": Learner(
        PixelQ,
        "deadtime.learn.frame_q:FRAME_Q",
        _DECIDING,
        manifests.of_frame_q,
        ("chosen", "executed"),
        loops=("host",),
        frames=True,
    ),
    "pixel-a2c": Learner(
        PixelA2C,
        "deadtime.learn.frame_actor_critic:FRAME_ACTOR_CRITIC",
        ("history",),
        manifests.of_frame_actor_critic,
        loops=("host",),
        frames=True,
    ),
}
"""All learners by their kind; records carry the kind's settings and version."""


def learners_of(
    family: Family, action_kind: ActionKind, observation_kind: ObservationKind | None = None
) -> dict[str, Learner]:
    """Return the learner of each agent for a family's environments with actions of one kind.

    Without `observation_kind`, their observations are of the family's usual kind. Of several
    learners, a built-in agent has the one that was registered first, so that learners from outside
    change no run of it. An agent from outside has the one that was registered last.
    """
    kinds = action_kind, observation_kind or family.observation_kinds[0]
    found: dict[str, Learner] = {}
    for agent, view in VIEWS.items():
        for learner in LEARNERS.values():
            if agent in found and agent in BUILT_IN:
                continue
            if learner.works_in(family, *kinds) and learner.can_have(view, family.looks_ahead):
                found[agent] = learner
    return found


def agents_of(family: Family) -> dict[str, list[Learner]]:
    """Return the agents of a family, with the learner for each kind of its environments."""
    found: dict[str, list[Learner]] = {}
    for kinds in product(family.action_kinds, family.observation_kinds):
        for agent, learner in learners_of(family, *kinds).items():
            found.setdefault(agent, []).append(learner)
    return found
