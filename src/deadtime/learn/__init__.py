"""Learning under a delay: views, learners, forward models, loops and the trainer."""

__all__: list[str] = []
