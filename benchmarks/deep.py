"""The compiled deep learner on noisy CartPole with the paper's networks, an update every step.

On a CPU (one core: `taskset -c 0 python benchmarks/deep.py`) it is compared with the DQN of
Stable-Baselines3 with the same network and batch. Each delay in its shared program is compared with
a program for that delay alone. With a GPU (`python benchmarks/deep.py`) many runs are trained at
once, and their memory is measured. Rates are environment steps a second: medians of rounds,
compilation not counted.
"""

from statistics import median
from time import perf_counter

import jax

from deadtime.envs import family_of
from deadtime.learn import groups_of, preset
from deadtime.runs import make_spec

ROUNDS = 9


class Runs:
    """Runs side by side in one program, to be timed chunk by chunk."""

    def __init__(self, agent, delay, runs=1, alone=False):
        spec = make_spec("noisy-cartpole", agent, delay, {"preset": "paper"})
        pairs = [(spec, seed) for seed in range(runs)]
        (self.group,) = groups_of(pairs, jax.default_backend(), alone=alone)
        self.group.begin()
        self.rate()

    def rate(self):
        begin = perf_counter()
        return self.group.advance() / (perf_counter() - begin)


def sb3_rate(steps=3000):
    """Return the rate of Stable-Baselines3's DQN without a delay."""
    import gymnasium as gym
    import torch
    from stable_baselines3 import DQN

    import deadtime  # noqa: F401

    torch.set_num_threads(1)
    settings = preset("paper", family_of("cartpole"))
    model = DQN(
        "MlpPolicy",
        gym.make("deadtime/NoisyCartPole-v1"),
        learning_rate=settings.learning_rate,
        buffer_size=settings.buffer_size,
        batch_size=settings.batch_size,
        learning_starts=settings.batch_size,
        train_freq=1,
        gradient_steps=1,
        target_update_interval=settings.target_period_updates,
        policy_kwargs={"net_arch": list(settings.hidden)},
        device="cpu",
    )
    model.learn(500)
    begin = perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return steps / (perf_counter() - begin)


def compared(first, second):
    """Return the median rates of two, timed in turn."""
    rates = [(first.rate(), second.rate()) for _ in range(ROUNDS)]
    return tuple(median(column) for column in zip(*rates, strict=True))


def on_cpu():
    peers = [sb3_rate() for _ in range(3)]
    fastest = Runs("oblivious", 0)
    undelayed, delayed = compared(fastest, Runs("delayed", 25))
    peers.append(sb3_rate())
    peer = median(peers)
    print(f"Stable-Baselines3 DQN, m=0       {peer:10,.0f} steps/s")
    print(
        f"fastest m=0 program              {undelayed:10,.0f} steps/s   "
        f"{undelayed / peer:5.0f}× the peer (aim 30)"
    )
    print(
        f"delayed, m=25                    {delayed:10,.0f} steps/s   "
        f"{delayed / peer:5.0f}× the peer at m=0 (aim 20)"
    )
    print(f"m=25 costs {undelayed / delayed:.2f}× the fastest m=0 program a step (aim 2)")
    for delay in (1, 3, 7, 12, 18, 22):
        shared, alone = compared(Runs("delayed", delay), Runs("delayed", delay, alone=True))
        print(
            f"delayed, m={delay}: {shared:,.0f} steps/s, program of its own {alone:,.0f}: "
            f"{alone / shared:.2f}× (aim 1.3)"
        )


def on_gpu():
    device = jax.devices()[0]
    for runs in (240, 500, 1000, 2000):
        batch = Runs("delayed", 25, runs)
        rate = median(batch.rate() for _ in range(5))
        peak = device.memory_stats()["peak_bytes_in_use"]
        print(
            f"{runs} runs, m=25: {rate:,.0f} steps/s, {rate / runs:,.0f} a run; "
            f"state {batch.group.bytes / 2**20:,.0f} MiB, peak {peak / 2**20:,.0f} MiB",
            flush=True,
        )
        del batch
    undelayed, delayed = compared(Runs("oblivious", 0, 2000, alone=True), Runs("delayed", 25, 2000))
    print(
        f"2000 runs: m=25 costs {undelayed / delayed:.2f}× the fastest m=0 program "
        f"({undelayed:,.0f} steps/s; aim 2.5)"
    )
    alone = median(Runs("delayed", 25, 2000, alone=True).rate() for _ in range(2))
    print(f"2000 runs, m=25, in a program for this view alone: {alone:,.0f} steps/s")


if __name__ == "__main__":
    print(jax.devices()[0].device_kind, "JAX", jax.__version__)
    (on_gpu if jax.default_backend() == "gpu" else on_cpu)()
