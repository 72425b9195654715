import os
import signal
from collections import Counter

import pytest

# A shell starts background jobs with SIGINT ignored, and child processes inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
# Without this, tests would spend most of their time compiling.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Workers and subprocesses share what one of them has compiled, short programs too.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
# On a GPU, TensorFloat-32 is too coarse to compare results.
os.environ.setdefault("JAX_DEFAULT_MATMUL_PRECISION", "highest")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Give the tests of a file one worker, so that what they share is compiled once."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture
def compiled_well():
    """Compile with all optimizations, as users do."""
    import jax

    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def marker(tmp_path):
    """Return the path that a `Payload` creates, and check that no code of a file ran."""
    path = tmp_path / "it ran"
    yield path
    assert not path.exists()


def pytest_terminal_summary(terminalreporter):
    """Print one line for each reason why tests were skipped."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason}")
