"""One-step forward models, and rolling them through the queue."""
