"""Ages that vary: a hidden Markov model whose state is the age that a step executes.

Given the ages, the change of a row is a one-step model of the state and the action of that age. The
expectation-maximization algorithm estimates the model and the law of ages together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from deadtime.identify.age_chains import (
    AgeChain,
    Anew,
    Bursts,
    Counts,
    Drifting,
    NewestArrival,
    OneAge,
)
from deadtime.identify.age_model import Fit
from deadtime.identify.evidence import tempered
from deadtime.identify.features import Form, state_features, with_gain
from deadtime.identify.lag_scores import FLOOR, log_density, ridge_fits, scales
from deadtime.identify.responses import responses
from deadtime.identify.transitions import Transitions

_MODEL_STEPS = 15
_LAW_STEPS = 5
_CHAIN_STEPS = 6
_RARE = 0.02
"""Ages or latencies less probable than this are left out if the log is explained as well."""
_LEAST_SHOWN = 100
"""An age is considered if this many rows have an action of that age in their episode."""
LEAST_OTHER = 0.1
"""The smallest share of steps with other ages at which a delay is said to vary."""
_SAMPLES = 64
"""The largest number of logged actions that stand for an unknown one from before an episode."""
_IMPOSSIBLE = 1e-280
"""A state with a smaller probability, given the rows before, is left out."""
_LEAST_LIKELY = 1e-9
"""The least density of an age relative to the best one, so that no single row excludes an age."""


@dataclass(frozen=True)
class Ages:
    """An estimated law of ages, and how well it predicts each row."""

    chain: AgeChain
    law: np.ndarray
    """The share of steps with each age 0 … K."""
    evidence: np.ndarray
    """Log-density of each row, given the rows before."""
    certainty: float
    """How well the log shows the age of each step: 0 no better than the law of ages, 1 exactly."""
    densities: np.ndarray
    """Log-density of each row under each considered age, (ages, n)."""
    mixture: np.ndarray
    """The share of steps with each considered age, if each age were drawn independently."""
    fit: Fit
    """The one-step model."""


def varying_ages(data: Transitions, form: Form) -> Ages:
    """Return the kind of law that explains the log best, with its estimate."""
    lags = data.lags
    shown = int(np.flatnonzero(data.known.sum(1) >= min(_LEAST_SHOWN, data.rows))[-1]) + 1
    data = replace(data, lagged=data.lagged[:shown], known=data.known[:shown])
    model = _Model(data, form)
    shares = responses(data, form, np.arange(data.lags)).shares
    law = 0.9 * shares + 0.1 / data.lags
    weights = np.tile(law[:, None], (1, data.rows)) * data.known
    law = model.alternate(weights, law)
    if 1 - law.max() < LEAST_OTHER:
        evidence = model.evidence(law)
        return Ages(
            Anew(law), _padded(law, lags), evidence, 1.0, model.emissions, law, model.fitted
        )
    best: Ages | None = None
    for first in _chains(law, data):
        found = model.explain(first)
        if best is None or _criterion(found) > _criterion(best):
            best = found
    assert best is not None
    return replace(best, law=_padded(best.law, lags), mixture=law)


def most_others(ages: Ages, lag: int, level: float) -> float:
    """Return the largest share of steps with other ages than `lag` that the log does not exclude.

    Shares are compared by the likelihood of a mixture: a step has an age other than `lag` with the
    probability π, and then one of the best mixture of others, made a little more even. A share is
    excluded if it makes the log less likely than the best share by the factor 1 - `level`. If no
    step of n shows another age, that is the rule of three: (1 - π)^n < 1 - level.
    """
    if lag >= len(ages.mixture) or len(ages.mixture) == 1:
        return 1.0
    rest = np.delete(ages.mixture, lag)
    even = np.full(len(rest), 1 / len(rest))
    rest = (rest / rest.sum() + even) / 2 if rest.sum() > 0 else even
    others = np.logaddexp.reduce(np.delete(ages.densities, lag, 0) + np.log(rest)[:, None])
    shares = np.concatenate([np.geomspace(1e-5, 0.5, 60), np.linspace(0.51, 0.999, 50)])[:, None]
    each = np.logaddexp(np.log1p(-shares) + ages.densities[lag], np.log(shares) + others)
    best = int(each.sum(1).argmax())
    allowed = tempered(each[best] - each[best:]) <= -np.log(1 - level)
    return float(shares[best + np.flatnonzero(allowed)[-1], 0])


def decorrelated(data: Transitions, form: Form, lag: int) -> Transitions:
    """Return the data with changes combined so that the residuals at `lag` are uncorrelated.

    Otherwise outputs with common disturbances would count as evidence several times.
    """
    features = np.concatenate(
        [state_features(data, form), with_gain(data.lagged[lag], data, form)], axis=1
    )
    use = data.known[lag]
    left = data.change - features @ ridge_fits(features, data.change, use, max(form.ridge, 1e-4))
    covariance = left[use].T @ left[use] / max(int(use.sum()), 1)
    sizes, directions = np.linalg.eigh(covariance)
    rotated = data.change @ directions / np.sqrt(np.maximum(sizes, FLOOR**2))
    return replace(data, change=rotated / rotated.std(0))


def constant_evidence(
    data: Transitions, form: Form, actions: np.ndarray, known: np.ndarray
) -> np.ndarray:
    """Return the log-density of each row if its step executes `actions`, (n, u), where `known`."""
    one = replace(data, lagged=actions[None], known=known[None])
    model = _Model(one, form)
    model.fit(one.known.astype(np.float64))
    return model.emissions[0]


def _padded(law: np.ndarray, lags: int) -> np.ndarray:
    return np.append(law, np.zeros(lags - len(law)))


def _chains(law: np.ndarray, data: Transitions) -> list[AgeChain]:
    floor = 0.98 * law + 0.02 / len(law)
    chains: list[AgeChain] = [NewestArrival(floor), Anew(floor), Drifting(law, 0.5), Bursts.of(law)]
    if data.starts.sum() > 1:
        chains.append(OneAge(floor))
    return chains


def _criterion(found: Ages) -> float:
    """Return the Bayesian information criterion, as a log-density."""
    return float(found.evidence.sum()) - found.chain.numbers / 2 * np.log(len(found.evidence))


class _Model:
    """The one-step model, with the arrays that all iterations share."""

    def __init__(self, data: Transitions, form: Form):
        self.data = data
        self.phi = state_features(data, form)
        self.acted = with_gain(data.lagged, data, form)
        self.ridge = max(form.ridge, 1e-4)
        self.early = np.flatnonzero(~data.known.all(0))
        samples, self.shares = _usual_actions(data.lagged[0])
        others = np.repeat(samples[:, None], len(self.early), axis=1)
        self.others = with_gain(others, replace(data, state=data.state[self.early]), form)
        self.emissions = np.zeros((data.lags, data.rows))

    def alternate(self, weights: np.ndarray, law: np.ndarray) -> np.ndarray:
        """Fit model and law in turn, as if each age were drawn independently; return the law."""
        for _ in range(_MODEL_STEPS):
            self.fit(weights)
            likely = np.exp(self.emissions - self.emissions.max(0))
            for _ in range(_LAW_STEPS):
                posterior = np.maximum(law, 1e-12)[:, None] * likely
                posterior /= posterior.sum(0)
                law = posterior.mean(1)
            weights = posterior * self.data.known
        return law

    def fit(self, weights: np.ndarray) -> None:
        """Fit the model to rows that have each age with the probability `weights`, (K + 1, n).

        A row whose action may be from before the log counts less: its other ages are left out.
        """
        data = self.data
        phi = self.phi * weights.sum(0)[:, None]
        mean = (weights[..., None] * self.acted).sum(0)
        square = sum(
            (one[:, None] * acted).T @ acted for one, acted in zip(weights, self.acted, strict=True)
        )
        cross = self.phi.T @ mean
        left = np.block([[phi.T @ self.phi, cross], [cross.T, square]])
        left[np.diag_indices_from(left)] += self.ridge * data.rows
        right = np.concatenate([phi.T @ data.change, mean.T @ data.change])
        found = np.linalg.solve(left, right)
        state_part, action_part = np.split(found, [self.phi.shape[1]])
        without = data.change - self.phi @ state_part
        residuals = without - self.acted @ action_part
        flat = residuals.reshape(-1, residuals.shape[-1])
        scale = scales(flat, weights.reshape(-1))
        self.fitted = Fit(state_part, action_part, scale)
        self.emissions = log_density(residuals, scale)
        if len(self.early):
            # An action from before the log may be any: the mean over actions of the log.
            each = log_density(without[self.early] - self.others @ action_part, scale)
            unknown = np.zeros(data.rows)
            unknown[self.early] = np.logaddexp.reduce(each + np.log(self.shares)[:, None])
            self.emissions = np.where(data.known, self.emissions, unknown)

    def evidence(self, law: np.ndarray) -> np.ndarray:
        """Return the log-density of each row if each age is drawn independently from `law`."""
        joint = self.emissions + np.log(np.maximum(law, 1e-12))[:, None]
        top = joint.max(0)
        return top + np.log(np.exp(joint - top).sum(0))

    def explain(self, chain: AgeChain) -> Ages:
        """Estimate the law of a chain; the model stays fixed, so that chains can be compared.

        Rare ages or latencies are left out if the log is explained as well without them.
        """
        whole = self._estimated(chain)
        fewer = self._estimated(whole.chain.pruned(_RARE))
        return max(whole, fewer, key=_criterion)

    def _estimated(self, chain: AgeChain) -> Ages:
        for _ in range(_CHAIN_STEPS):
            _, _, counts = self._smooth(chain)
            chain = chain.updated(counts)
        evidence, posterior, counts = self._smooth(chain)
        law = posterior.mean(1)
        certainty = 1 - float(_entropy(posterior).mean() / max(_entropy(law), 1e-9))
        return Ages(chain, law, evidence, certainty, self.emissions, law, self.fitted)

    def _smooth(self, chain: AgeChain) -> tuple[np.ndarray, np.ndarray, Counts]:
        """Run the forward-backward algorithm over all episodes."""
        top = self.emissions.max(0)
        likely = np.maximum(np.exp(self.emissions - top).T, _LEAST_LIKELY)
        moves, start = chain.transitions(), chain.start()
        starts = self.data.starts
        rows, size = likely.shape
        forward = np.empty((rows, size))
        evidence = np.empty(rows)
        for t in range(rows):
            now = (start if starts[t] else forward[t - 1] @ moves) * likely[t]
            total = max(now.sum(), 1e-300)
            evidence[t] = total
            forward[t] = now / total
        backward = np.ones((rows, size))
        for t in range(rows - 2, -1, -1):
            if not starts[t + 1]:
                ahead = moves @ (likely[t + 1] * backward[t + 1]) / evidence[t + 1]
                backward[t] = np.where(forward[t] > _IMPOSSIBLE, ahead, 0.0)  # it could overflow
        posterior = forward * backward
        posterior /= np.maximum(posterior.sum(1, keepdims=True), 1e-300)
        later = np.flatnonzero(~starts)
        ahead = likely[later] * backward[later] / evidence[later, None]
        pairs = moves * (forward[later - 1].T @ ahead)
        counts = Counts(pairs, posterior[starts].sum(0))
        return np.log(evidence) + top, posterior.T, counts


def _usual_actions(actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions of a log, or some of them, with their shares."""
    found, counts = np.unique(actions, axis=0, return_counts=True)
    if len(found) > _SAMPLES:
        found = actions[np.linspace(0, len(actions) - 1, _SAMPLES).astype(np.int64)]
        return found, np.full(_SAMPLES, 1 / _SAMPLES)
    return found, counts / counts.sum()


def _entropy(law: np.ndarray) -> np.ndarray:
    """Return the entropy over the first axis."""
    return -(law * np.log(np.maximum(law, 1e-300))).sum(0)
