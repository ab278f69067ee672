"""The program `asyncq`. It runs `asyncq probe` without the package, whose import takes longer than the probe itself."""

import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType


def main() -> int:
    """Run the command line of this process, and return its exit code."""
    words = sys.argv[1:]
    if words[:1] == ["probe"] and not any(word.startswith("-") for word in words):
        return _probe(words[1:])
    from asyncq.cli import main as run

    return run()


def _probe(urls: list[str]) -> int:
    path = os.path.join(os.path.dirname(__file__), "asyncq", "cli", "probe.py")
    module = ModuleType("asyncq_probe")
    SourceFileLoader(module.__name__, path).exec_module(module)
    code: int = module.probe(urls)
    return code
