"""One learner, several views of a delayed environment."""
