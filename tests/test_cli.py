import subprocess
import sys
from pathlib import Path

import deadtime

COMMAND = Path(sys.executable).parent / "deadtime"


def run(*arguments):
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_version():
    assert run("--version").stdout == f"deadtime {deadtime.__version__}\n"


def test_help_and_no_arguments_say_the_same():
    assert "when actions land late" in run("--help").stdout
    assert run().stdout == run("--help").stdout


def test_unknown_argument():
    done = run("--vresion")
    assert done.returncode == 2
    assert "--vresion" in done.stderr


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "deadtime", "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"deadtime {deadtime.__version__}\n"
