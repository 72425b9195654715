import os

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("JAX_DEFAULT_MATMUL_PRECISION", "highest")  # of a GPU: TensorFloat is too coarse to compare
