"""The paper's CartPole and Acrobot experiments as data.

Noise changes masses and lengths, as in the authors' code, under both presets: so both can be
compared with the paper's table.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from deadtime.learn.presets import PRESETS
from deadtime.runs.deep_specs import DeepSpec
from deadtime.studies.experiment import Experiment
from deadtime.studies.paper import physical_figures as show
from deadtime.studies.paper import published

SEEDS = range(10)
FEWER = range(5)


def physical(
    env: str,
    agent: str,
    delay: int,
    preset: str = "best",
    noise: float | None = None,
    **options: Any,
) -> DeepSpec:
    """Return a run on CartPole or Acrobot; `options` are other fields of the spec."""
    settings: dict[str, Any] = {} if noise is None else {"noise": noise}
    if "noisy" in env or noise:
        settings["perturb"] = "masses+lengths"
    return DeepSpec(env, agent, delay, preset, settings=settings, **options)


EXPERIMENTS = [
    Experiment(
        "convergence",
        "Noisy CartPole: learning curves",
        {
            ("paper", "noisy-cartpole", agent, m): physical("noisy-cartpole", agent, m, "paper")
            for m, agent in product(show.DELAYS[1:], published.AGENTS)
        },
        SEEDS,
        show.draw_curves,
        lambda results, root: show.rows_of(results, ("preset", "environment", "agent", "delay")),
        "physical",
        partial(show.score_of, "paper"),
    ),
    Experiment(
        "causes",
        "Delayed-Q with the two mistakes of the authors' code, one at a time and both",
        {
            (env, m, *mistakes): physical(
                env, "delayed", m, "paper", changes=dict(zip(show.MISTAKES, mistakes, strict=True))
            )
            for env, m, *mistakes in product(
                show.ENVS, show.DELAYS[1:], (True, False), (True, False)
            )
        },
        FEWER,
        show.draw_causes,
        lambda results, root: show.rows_of(results, ("environment", "delay", *show.MISTAKES)),
    ),
    Experiment(
        "delay-sweep",
        "Noisy CartPole and Noisy Acrobot: return against the delay",
        {
            (env, a, m): physical(env, a, m)
            for env, m, a in product(show.SWEPT_ENVS, show.SWEPT, published.AGENTS)
        },
        FEWER,
        show.draw_sweep,
        lambda results, root: show.rows_of(results, ("environment", "agent", "delay")),
        "physical",
    ),
    Experiment(
        "heatmap-cartpole",
        "CartPole, Delayed-Q: return over delay and noise",
        {
            (p, m): physical("cartpole", "delayed", m, noise=p)
            for p, m in product(show.MAP_NOISES, show.MAP_DELAYS)
        },
        FEWER,
        show.draw_map,
        lambda results, root: show.rows_of(results, ("noise", "delay")),
    ),
    Experiment(
        "model-gap",
        "Delayed-Q with its learned model and with the simulator itself",
        {
            (preset, env, model, m): physical(
                env, "delayed", m, preset, changes=show.GAP_MODELS[model]
            )
            for preset, env, model, m in product(
                PRESETS, show.GAP_ENVS, show.GAP_MODELS, show.DELAYS[1:]
            )
            if model != "simulator, 8 draws" or (preset, env) == ("best", "noisy-cartpole")
        },
        FEWER,
        show.draw_gap,
        lambda results, root: show.rows_of(results, ("preset", "environment", "model", "delay")),
    ),
    Experiment(
        "misspecification",
        "Delayed-Q trained at m = 10, evaluated at other delays",
        {env: physical(env, "delayed", 10, evaluation_delays=show.TESTED) for env in show.GAP_ENVS},
        SEEDS,
        show.draw_misspecified,
        show.misspecified_table,
    ),
    Experiment(
        "plain-reward",
        "CartPole trained on its plain reward instead of the shaped one",
        {
            (env, agent, m): physical(env, agent, m, changes=show.PLAIN)
            for env, m, agent in product(show.GAP_ENVS, show.DELAYS, published.AGENTS)
        },
        FEWER,
        show.draw_plain,
        lambda results, root: show.rows_of(results, ("environment", "agent", "delay")),
    ),
]
