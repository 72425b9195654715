"""Estimates of how long one deep run takes on one core, from the operations that it makes.

A step has the work of its environment and its loop, an update of the networks, and rows that go
through a network one at a time. An update is a number of passes of a batch through a network. The
constants were measured on one core of a shared machine: `python benchmarks/estimates.py` compares
estimates with real times.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

from deadtime.learn.program import Program
from deadtime.runs.deep_specs import DeepSpec
from deadtime.runtime.views import VIEWS

STEP_SECONDS = 1.2e-5
"""Seconds of a step in the compiled loop without its networks: environment and replay buffer."""
TURN_SECONDS = 1.8e-4, 2e-5
"""Seconds of a turn of the host loop without its networks: fixed, and for each environment."""
WEIGHT_SECONDS = 8e-12
"""Seconds in a batch for each of its rows and each weight of a network."""
UNIT_SECONDS = 4e-10
"""Seconds in a batch for each of its rows and each unit of a network."""
ROW_SECONDS = 4e-10
"""Seconds for each weight of a network that one row goes through alone."""
PASSES = {"double-q": 5, "sac": 16, "a2c": 8}
"""The number of passes of a batch through one network in an update, by the learner's kind.

A pass forward counts once, its slopes twice. Double Q-learning goes forward three times and has
slopes once. SAC has an actor, two critics and their targets. A2C acts once more, and its four
passes count twice, since its batches are small."""
FITTING_PASSES = 3
"""The number of passes through a network that is fitted beside it: a forward model, say."""
SIMULATED_SECONDS = 2e-6
"""Seconds of a step of the simulator as a forward model; its draws are made side by side."""
FRAMES_STEP_SECONDS = 1 / 45
"""Seconds of a step on frames, nearly all in convolutions."""
PLAYED_SECONDS = 7e-5
"""Seconds of a step of an evaluation whose environment is outside the compiled program."""


class Size(NamedTuple):
    """The size of a network, without the weights that are added."""

    weights: int
    units: int

    @property
    def pass_seconds(self) -> float:
        """The seconds of a pass, for each row of a batch."""
        return WEIGHT_SECONDS * self.weights + UNIT_SECONDS * self.units


def deep_seconds(spec: DeepSpec, program: Program) -> float:
    """Estimate the seconds of one seed's training and evaluation on one core."""
    if spec.frames:
        return FRAMES_STEP_SECONDS * spec.length
    step = STEP_SECONDS
    updates = spec.length  # a compiled step always computes one, even if it is not used
    if spec.outside:
        turn, each = TURN_SECONDS
        step = turn / spec.envs + each
        updates = max(0, spec.length - getattr(spec.learner, "random_steps", 0))
    step += _row_seconds(spec, program)
    return step * spec.length + _update_seconds(spec, program) * updates + _played_seconds(spec)


def _played_seconds(spec: DeepSpec) -> float:
    """Estimate the seconds of a run's evaluation, if it is outside the compiled program.

    The episodes are as long as possible. Inside a program they take no time worth counting.
    """
    if not spec.outside:
        return 0.0
    episodes = spec.evaluation_episodes * (1 + len(spec.evaluation_delays))
    return PLAYED_SECONDS * episodes * spec.family.longest_episode(spec.environment(0))


def _update_seconds(spec: DeepSpec, program: Program) -> float:
    """Estimate the seconds of updates for each step of the environment."""
    settings = spec.learner
    view = VIEWS[spec.agent]
    deciding = size_of(spec, program).pass_seconds
    of_state = _size(settings, program.observation, _outputs(program)).pass_seconds
    valuing = of_state if view.projects else deciding
    fitted = view.projects * deciding
    if view.predicts and settings.model != "simulator":
        fitted += settings.members * of_state
    passes = PASSES.get(settings.kind, 5) * valuing + FITTING_PASSES * fitted
    return getattr(settings, "batch_size", 1) * passes


def _row_seconds(spec: DeepSpec, program: Program) -> float:
    """Estimate the seconds of a choice, after a forward model's predictions."""
    settings = spec.learner
    if settings.kind == "a2c":  # a batch, counted among the passes
        return 0.0
    choice = ROW_SECONDS * size_of(spec, program).weights
    if not VIEWS[spec.agent].predicts:
        return choice
    if settings.model == "simulator":
        return choice + SIMULATED_SECONDS * spec.delay
    return choice * (1 + spec.delay * settings.members)


def size_of(spec: DeepSpec, program: Program) -> Size:
    """Return the size of the network that decides."""
    view = VIEWS[spec.agent]
    outputs = _outputs(program)
    if view.shown is not None:
        return _size(spec.learner, view.shown.size(program.observation, outputs), outputs)
    numbers = prod(program.action_shape)
    entry = outputs if getattr(spec.learner, "one_hot_queue", False) else numbers
    queue = program.capacity * entry if view.sees_queue else 0
    return _size(spec.learner, program.observation + program.age_inputs + queue, outputs)


def _outputs(program: Program) -> int:
    """Return the number of actions, or the number of numbers in an action."""
    return program.env.num_actions if program.box is None else prod(program.action_shape)


def _size(settings: Any, inputs: int, outputs: int) -> Size:
    """Return the size of a network with the layers of `settings`."""
    hidden = getattr(settings, "hidden", ())
    widths = inputs, *(hidden if isinstance(hidden, tuple) else (hidden,))
    weights = sum(one * other for one, other in pairwise(widths))
    units = sum(widths[1:])
    last = widths[-1]
    if lstm := getattr(settings, "lstm", 0):
        weights += 4 * lstm * (last + lstm)
        units += 4 * lstm
        last = lstm
    return Size(weights + last * outputs, units + outputs)
