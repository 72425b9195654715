"""Delayed planning against QuantEcon's DiscreteDP on the explicit augmented problem: time and
memory.

Each measurement runs in a process of its own, after a small problem has compiled the kernels.
Memory is counted above the imports. QuantEcon's time includes building the explicit problem, and
the faster of its modified policy and policy iteration is taken.

`--processes` measures sweeps under delay processes against those under a constant delay, on one
thread: the processor time for each state and action, of one improving sweep and eight that follow
its policy. The least of many rounds is taken, and rounds of the problems take turns, so that other
work on the machine slows all of them.
"""

import argparse
import json
import resource
import subprocess
import sys
from statistics import median
from time import perf_counter, process_time

import numpy as np

ROUNDS = 3


def problem():
    from deadtime.planning import random_mdp

    return random_mdp(np.random.default_rng(0), 25, 4, 0.95, 3)


def ours(mdp, delay):
    from deadtime.planning import solve

    solution = solve(mdp, delay, tol=1e-8)
    assert solution.converged
    return float(solution.values.ravel()[0])


def quantecon(mdp, delay, method):
    from quantecon.markov import DiscreteDP

    from deadtime.planning import augment

    explicit = augment(mdp, delay)
    states, actions = np.divmod(np.arange(explicit.states * explicit.actions), explicit.actions)
    ddp = DiscreteDP(explicit.r.ravel(), explicit.P, mdp.gamma, states, actions)
    return float(ddp.solve(method=method, epsilon=1e-8, max_iter=100_000).v[0])


SOLVERS = {
    "deadtime": ours,
    "quantecon mpi": lambda mdp, delay: quantecon(mdp, delay, "mpi"),
    "quantecon pi": lambda mdp, delay: quantecon(mdp, delay, "pi"),
}


def one(name: str, delay: int) -> None:
    """Run one solver and print seconds, bytes above the imports, and the first value."""
    mdp = problem()
    SOLVERS[name](mdp, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = perf_counter()
    value = SOLVERS[name](mdp, delay)
    seconds = perf_counter() - begin
    print(
        json.dumps(
            [seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, value]
        )
    )


def measure(name: str, delay: int, rounds: int = ROUNDS) -> tuple[float, float, float]:
    """Return the median seconds and memory over rounds, and the value."""
    command = [sys.executable, __file__, "--one", name, "--delay", str(delay)]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(rounds)
    ]
    seconds, memory, values = zip(*runs, strict=True)
    return median(seconds), median(memory), values[0]


def beliefs() -> None:
    """Print the time of a deterministic 20×20 maze at m = 25, by beliefs."""
    from deadtime.envs import Maze
    from deadtime.planning import MDP, solve

    P, r = Maze(size=20).model()
    solve(MDP(P, r, 1.0), 1, "beliefs", horizon=4000)
    begin = perf_counter()
    solution = solve(MDP(P, r, 1.0), 25, "beliefs", horizon=4000)
    took = perf_counter() - begin
    what = "20×20 maze, m=25, horizon 4,000, by beliefs"
    print(f"| {what} | {took:.2f} s | {solution.classes} classes |")


def sweeps(operator):
    """Return a function that does one improving sweep and eight that follow its policy, and its
    time for each state.
    """
    v = np.random.default_rng(0).normal(size=operator.shape)
    after = np.empty_like(v)
    policy = np.zeros(operator.shape, operator.policy_type)

    def timed() -> float:
        begin = process_time()
        operator.improve(v, after, policy)
        for _ in range(8):
            operator.follow(v, after, policy)
        return (process_time() - begin) / v.size

    timed()
    return timed


def processes(rounds: int = 30) -> None:
    """Print the cost for each state and action under processes, as a multiple of that under a
    constant delay.
    """
    import numba

    from deadtime.delays import GilbertElliott, PerEpisode, RandomWalk, Uniform
    from deadtime.planning import bellman_operator

    numba.set_num_threads(1)
    share = "share of the constant's"
    print(f"| S=25, A=4, 3 successors | states | ns a state and action | {share} | aim |")
    print("|---|---|---|---|---|")
    mdp = problem()
    for longest in (5, 7):
        named = {
            "constant": longest,
            "uniform latencies": Uniform(2, longest),
            "random walk": RandomWalk(0, longest),
            "Gilbert–Elliott": GilbertElliott(Uniform(0, 2), Uniform(2, longest), 0.1, 0.3),
            "one age an episode": PerEpisode(Uniform(0, longest)),
            "uniform ages, drawn anew": Uniform(2, longest, in_order=False),
        }
        problems = {name: bellman_operator(mdp, delay) for name, delay in named.items()}
        timers = {name: sweeps(operator) for name, operator in problems.items()}
        times: dict[str, list[float]] = {name: [] for name in timers}
        for _ in range(rounds):
            for name, timer in timers.items():
                times[name].append(timer())
        base = min(times["constant"])
        for name, operator in problems.items():
            least = min(times[name])
            states = int(np.prod(operator.shape))
            print(
                f"| {name}, K={longest} | {states:,} | {1e9 * least / mdp.actions / 9:.2f} | "
                f"{least / base:.2f} | {'' if name == 'constant' else '2'} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", choices=SOLVERS)
    parser.add_argument("--delay", type=int)
    parser.add_argument("--quick", action="store_true", help="leave out m=10")
    parser.add_argument("--processes", action="store_true", help="delay processes alone")
    arguments = parser.parse_args()
    if arguments.processes:
        processes()
        return
    if arguments.one:
        one(arguments.one, arguments.delay)
        return
    what = "S=25, A=4, 3 successors, γ=0.95, tol 1e-8"
    print(
        f"| {what} | deadtime | QuantEcon (its fastest) | faster | memory | share | aim |",
    )
    print("|---|---|---|---|---|---|---|")
    for delay, aim in ((6, "2×"), (8, "5×, a tenth")):
        seconds, memory, value = measure("deadtime", delay)
        peers = {name: measure(name, delay) for name in ("quantecon mpi", "quantecon pi")}
        best, (peer_seconds, peer_memory, peer_value) = min(
            peers.items(), key=lambda pair: pair[1][0]
        )
        assert abs(value - peer_value) < 1e-6, (value, peer_value)
        print(
            f"| m={delay} | {seconds:.3f} s | {peer_seconds:.3f} s ({best}) | "
            f"{peer_seconds / seconds:.1f}× | "
            f"{memory / 2**20:.0f} / {peer_memory / 2**20:.0f} MiB | "
            f"{memory / peer_memory:.3f} | {aim} |",
            flush=True,
        )
    print("\n| what | time | size |\n|---|---|---|")
    if not arguments.quick:
        seconds, memory, _ = measure("deadtime", 10, 1)
        print(
            f"| m=10, 26 million augmented states | {seconds:.1f} s | {memory / 2**30:.2f} GiB |",
            flush=True,
        )
    beliefs()


if __name__ == "__main__":
    main()
