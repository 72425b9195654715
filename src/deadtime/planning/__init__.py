"""Exact answers about finite MDPs with execution delay."""

from deadtime._support.extras import extras_needed

with extras_needed():
    from deadtime.planning.augmented import augment
    from deadtime.planning.beliefs import BeliefSolution
    from deadtime.planning.channel_policies import Paths, policy_values, simulate_process
    from deadtime.planning.channel_solution import ProcessSolution
    from deadtime.planning.delayed_value import at_queue, exact_values, recursive_values
    from deadtime.planning.examples import chain, random_mdp, two_state
    from deadtime.planning.iteration import BellmanOperator
    from deadtime.planning.late_observations import LateObservations, late_observations
    from deadtime.planning.mdp import MDP
    from deadtime.planning.process import (
        Policy,
        law_at,
        markov,
        path_probability,
        queue_aware,
        simulate,
        stationary,
    )
    from deadtime.planning.solution import Solution
    from deadtime.planning.solvers import bellman_operator, solve
    from deadtime.planning.unobserved import Bounds, bounds

__all__ = [
    "MDP",
    "BeliefSolution",
    "BellmanOperator",
    "Bounds",
    "LateObservations",
    "Paths",
    "Policy",
    "ProcessSolution",
    "Solution",
    "at_queue",
    "augment",
    "bellman_operator",
    "bounds",
    "chain",
    "exact_values",
    "late_observations",
    "law_at",
    "markov",
    "path_probability",
    "policy_values",
    "queue_aware",
    "random_mdp",
    "recursive_values",
    "simulate",
    "simulate_process",
    "solve",
    "stationary",
    "two_state",
]
