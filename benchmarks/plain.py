"""Q-learning under delay as one would write it in Python with NumPy: the peer of `tabular.py`.

The tests compare the compiled learner with it, bit by bit. It draws the same random numbers, rolls
the whole queue at every decision, and keeps Augmented-Q's values in a dict.
"""

import numpy as np

MASK = (1 << 64) - 1


class Stream:
    """Random numbers by SplitMix64."""

    def __init__(self, state):
        self.state = int(state)

    def uniform(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return ((z ^ (z >> 31)) >> 11) / 2**53


class Plain:
    """One run.

    `q` maps what the agent sees to the values of its actions. `counts` maps a pair (s, a) to the
    visits of its successors. `states` maps a state to the values of actions, if the view projects.
    """

    def __init__(self, env, view, delay, streams, step_size=0.1, discount=0.99, epsilon=0.0):
        self.env = env
        self.view = view
        self.delay = delay
        self.world, self.explorer = (Stream(state) for state in streams)
        self.step_size = step_size
        self.discount = discount
        self.epsilon = epsilon
        self.actions = env.successors.shape[1]
        self.q = {}
        self.states = {}
        self.counts = {}
        self.likely = {}

    def values(self, seen):
        if seen not in self.q:
            self.q[seen] = np.zeros(self.actions)
        return self.q[seen]

    def see(self, state, queue):
        if self.view.sees == "queue":
            return (state, *queue)
        if self.view.sees == "prediction":
            for action in queue:
                state = self.likely.get((state, action), state)
        return state

    def law(self, state, queue):
        law = {state: 1.0}
        for action in queue:
            after = {}
            for s, weight in law.items():
                visits = self.counts.get((s, action), {s: 1})
                total = sum(visits.values())
                for other, count in visits.items():
                    after[other] = after.get(other, 0.0) + weight * count / total
            law = after
        return law

    def choose(self, state, seen, queue):
        if self.view.sees == "law":
            values = np.zeros(self.actions)
            for s, weight in self.law(state, queue).items():
                values += weight * self.values(s)
        else:
            values = self.values(seen)
        u = self.explorer.uniform()
        if u < self.epsilon:
            return min(int(u / self.epsilon * self.actions), self.actions - 1)
        best = np.flatnonzero(values == values.max())
        return int(
            best[min(int((u - self.epsilon) / (1 - self.epsilon) * len(best)), len(best) - 1)]
        )

    def step(self, state, action):
        k = 0
        if self.env.successors.shape[2] > 1:
            u = self.world.uniform()
            while u >= self.env.cumulative[state, action, k]:
                k += 1
        after = int(self.env.successors[state, action, k])
        return after, float(self.env.rewards[state, action, k]), bool(self.env.terminal[after])

    def observe(self, state, action, after):
        visits = self.counts.setdefault((state, action), {})
        visits[after] = visits.get(after, 0) + 1
        leader = self.likely.get((state, action))
        if leader is None or visits[after] > visits[leader]:
            self.likely[state, action] = after

    def learn(self, seen, action, reward, then, ended):
        target = reward if ended else reward + self.discount * self.values(then).max()
        values = self.values(seen)
        values[action] += self.step_size * (target - values[action])

    def projected(self, seen, state):
        """Return the action of the largest projection; of equal ones, the best in the state."""
        pairs = zip(self.values(seen).tolist(), self.of_state(state).tolist(), strict=True)
        ranked = [*pairs]
        return ranked.index(max(ranked))

    def of_state(self, state):
        return self.states.setdefault(state, np.zeros(self.actions))

    def project(self, seen, state, action, target):
        """Move the value of the state to the target, then the projection to the state's values."""
        values = self.of_state(state)
        values[action] += self.step_size * (target - values[action])
        if seen is not None:
            found = self.values(seen)
            found += self.step_size * (values - found)

    def start_state(self):
        if len(self.env.starts) == 1:
            return int(self.env.starts[0])
        place = np.searchsorted(self.env.start_cumulative, self.world.uniform(), side="right")
        return int(self.env.starts[place])

    def episode(self):
        m = self.delay
        sees = []
        queue = [int(self.world.uniform() * self.actions) for _ in range(m)]
        state = self.start_state()
        earned = 0.0
        ended = False
        t = 0
        seen = self.see(state, queue)
        while not ended and t < self.env.max_steps:
            sees.append(seen)
            chosen = self.choose(state, seen, queue)
            executed, *queue = [*queue, chosen]
            after, reward, ended = self.step(state, executed)
            if self.view.predicts:
                self.observe(state, executed, after)
            then = None if ended else self.see(after, queue)
            if self.view.projects and not ended:
                self.values(then)  # the next decision has a row, even if the episode ends here
            if self.view.credits == "chosen" or (self.view.projects and not m):
                self.learn(seen, chosen, reward, then, ended)
            elif self.view.projects and t >= m:
                target = reward
                if not ended:
                    best = self.projected(sees[t - m + 1], after)
                    target += self.discount * self.of_state(after)[best]
                self.project(sees[t - m], state, executed, target)
            elif self.view.credits == "executed" and t >= m:
                self.learn(state, executed, reward, after, ended)
            elif self.view.credits == "shifted" and t >= m:
                self.learn(
                    sees[t - m], executed, reward, then if m == 0 else sees[t - m + 1], ended
                )
            earned += reward
            state = after
            seen = then
            t += 1
        return earned, t
