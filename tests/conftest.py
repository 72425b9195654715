import os

import pytest

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("JAX_DEFAULT_MATMUL_PRECISION", "highest")  # of a GPU: TensorFloat is too coarse to compare


@pytest.fixture
def compiled_fast():
    """What is compiled need not run fast."""
    from deadtime.training.memory import compiled_quickly

    with compiled_quickly():
        yield
