"""The program `asyncq`. It runs what has to be quick without the package, whose import takes longer than that itself.

So it does `asyncq probe`, and prints the texts that are kept in the package: `asyncq --help`, `asyncq completion`.
"""

import os
import sys

PACKAGE = os.path.join(os.path.dirname(__file__), "asyncq", "cli")
TEXTS: dict[tuple[str, ...], str] = {
    ("-h",): "help.txt",
    ("--help",): "help.txt",
    **{("completion", shell): f"completion.{shell}" for shell in ("bash", "zsh", "fish")},
}


def main() -> int:
    """Run the command line of this process, and return its exit code."""
    words = sys.argv[1:]
    if words[:1] == ["probe"] and not any(word.startswith("-") for word in words):
        return _probe(words[1:])
    if (name := TEXTS.get(tuple(words))) is not None and _prints(name):
        return 0
    from asyncq.cli import main as run

    return run()


def _probe(urls: list[str]) -> int:
    from importlib.machinery import SourceFileLoader
    from types import ModuleType

    module = ModuleType("asyncq_probe")
    SourceFileLoader(module.__name__, os.path.join(PACKAGE, "probe.py")).exec_module(module)
    code: int = module.probe(urls)
    return code


def _prints(name: str) -> bool:
    """Print a text; returns False if that fails: the package then says why, or prints it by itself."""
    try:
        with open(os.path.join(PACKAGE, "texts", name), encoding="utf-8") as text:
            print(text.read(), end="", flush=True)
    except (OSError, UnicodeError):
        return False
    return True
