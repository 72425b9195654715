import os
import signal

import pytest

if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # as in a shell's background, where what tests start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # most of the time would be compiling
os.environ.setdefault(
    "JAX_DEFAULT_MATMUL_PRECISION", "highest"
)  # of a GPU: TensorFloat is too coarse to compare


@pytest.fixture
def compiled_well():
    """What is compiled is compiled as users have it."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)
