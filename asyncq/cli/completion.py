"""`asyncq completion`: a script that completes commands and options in a shell."""

import argparse
from importlib.resources import files

from asyncq.cli.parsing import Commands

PURPOSE = """\
Print a script that completes commands and options in a shell."""

EXAMPLES = """\
examples:
  eval "$(asyncq completion bash)"       in ~/.bashrc
  eval "$(asyncq completion zsh)"        in ~/.zshrc, after compinit
  asyncq completion fish | source        in ~/.config/fish/config.fish
"""


def add_parser(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("completion", help=PURPOSE, description=PURPOSE, epilog=EXAMPLES)
    parser.set_defaults(run=run)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell: bash, zsh or fish")


def run(options: argparse.Namespace) -> int:
    """Print it. The program `asyncq` prints the same file by itself, in less time."""
    print(files("asyncq.cli").joinpath("texts", f"completion.{options.shell}").read_text(encoding="utf-8"), end="")
    return 0
