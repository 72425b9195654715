"""The one-step model of a log whose delay varies: how likely a step is under each age.

With it, and with the law of ages, later steps tell their ages too, as the steps of the log did.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from deadtime.identify.features import Form, feature_scales, raw_features
from deadtime.identify.lag_scores import FREEDOM
from deadtime.identify.transitions import Scaling, Scalings, Transitions


class Fit(NamedTuple):
    """A fitted one-step model, on scaled features (see `features`)."""

    of_state: np.ndarray
    of_action: np.ndarray
    scale: np.ndarray
    """The scale of the residuals' Student law, for each column of the change."""


@dataclass(frozen=True)
class AgeModel:
    """A model of the change of an observation, given the action that was executed.

    Two models are equal if their numbers are. `text` has them as JSON.
    """

    text: str

    @classmethod
    def of(
        cls, data: Transitions, mixed: Transitions, form: Form, fit: Fit, numbers: tuple[float, ...]
    ) -> AgeModel:
        """Return the model that was fitted to `mixed`: `data` with its changes rotated."""
        raw = raw_features(data.state, data.angles, data.before, form)
        centre, spread = feature_scales(data, form, raw)
        of_state = fit.of_state / spread[:, None]
        of_state[0] -= centre @ of_state
        turn = np.linalg.lstsq(data.change, mixed.change, rcond=None)[0]
        found: dict[str, Any] = {"form": vars(form), "numbers": numbers}
        found |= {
            name: [list(one.columns), one.centre.tolist(), one.spread.tolist()]
            for name, one in data.scalings._asdict().items()
        }
        arrays = {"of_state": of_state, "of_action": fit.of_action, "turn": turn}
        arrays["scale"] = np.ravel(fit.scale)
        return cls(json.dumps(found | {name: one.tolist() for name, one in arrays.items()}))

    def log_densities(self, before: Any, now: Any, after: Any, actions: Any) -> Any:
        """Return the log-density of a step under each of several executed actions.

        The step goes from the observation `now` to `after`; `before` is the observation of the step
        before, or `now` at the start of an episode. Arrays may be of NumPy or JAX.
        """
        xp = now.__array_namespace__()
        facts, scalings = self._facts, self._scalings
        form = Form(**facts["form"])
        state = scalings.state(now)
        angles = now[..., np.array(scalings.state.columns, int)]
        features = raw_features(state, angles, scalings.before(now - before), form)
        if facts["numbers"]:
            shown = xp.asarray(actions[:, None] == np.array(facts["numbers"]), dtype=state.dtype)
        else:
            shown = actions.reshape(len(actions), -1)
        acted = scalings.action(shown)
        if form.gain:
            products = acted[:, :, None] * state[None, None, :]
            acted = xp.concat([acted, products.reshape(len(actions), -1)], axis=-1)
        arrays = self._arrays
        change = scalings.change(after - now) @ arrays["turn"]
        left = change - features @ arrays["of_state"] - acted @ arrays["of_action"]
        each = (FREEDOM + 1) / 2 * xp.log1p((left / arrays["scale"]) ** 2 / FREEDOM)
        return -each.sum(axis=-1)

    @cached_property
    def _facts(self) -> dict[str, Any]:
        return json.loads(self.text)

    @cached_property
    def _scalings(self) -> Scalings:
        every = (self._facts[name] for name in Scalings._fields)
        return Scalings(*(Scaling(tuple(c), np.array(m), np.array(s)) for c, m, s in every))

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        return {
            name: np.array(self._facts[name]) for name in ("of_state", "of_action", "turn", "scale")
        }
