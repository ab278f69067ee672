"""`asyncq probe`: ask workers whether they are well.

A container starts it every few seconds. So the program `asyncq` loads this file by itself: it needs nothing of the
package, and little of the standard library.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from asyncq.cli.parsing import Commands

DEFAULT_URL = "http://127.0.0.1:8081/healthz"
TIMEOUT_S = 5.0
MOST_READ = 65536
WELL = range(200, 300)

PURPOSE = f"""\
Ask workers with --http whether they are well.

The exit code is 0 if each page is answered with 200 within 5 s, else 1. It is
meant for images without curl. Without a URL it asks for
{DEFAULT_URL}."""

EXAMPLES = """\
examples:
  asyncq probe
  asyncq probe http://127.0.0.1:8081/readyz
  asyncq probe http://127.0.0.1:8081/healthz http://127.0.0.1:8082/healthz
"""


def add_parser(commands: "Commands") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("probe", help=PURPOSE.partition("\n")[0], description=PURPOSE, epilog=EXAMPLES)
    parser.set_defaults(run=run)
    parser.add_argument("urls", metavar="URL", nargs="*", help=f"a page of a worker (default: {DEFAULT_URL})")


def run(options: "argparse.Namespace") -> int:
    """Ask, and return the exit code."""
    return probe(options.urls)


def probe(urls: "Sequence[str]") -> int:
    """Ask for pages, and print each answer; returns 0 if all are well, else 1."""
    code = 0
    for url in urls or [DEFAULT_URL]:
        try:
            status, text = _ask(url)
        except (OSError, ValueError, IndexError) as error:
            status, text = 0, f"{type(error).__name__}: {error}"
        is_well = status in WELL
        print(f"{url}: {text.strip()}", file=sys.stdout if is_well else sys.stderr)
        code = code if is_well else 1
    return code


def _ask(url: str) -> tuple[int, str]:
    """The status and the text of a page."""
    import socket

    kind, _, rest = url.partition("://")
    place, _, path = rest.partition("/")
    host, colon, port = place.rpartition(":")
    if kind != "http" or not colon or not port.isdecimal():
        raise ValueError(f"expected http://HOST:PORT/PAGE, such as {DEFAULT_URL}")
    with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as line:
        line.sendall(f"GET /{path} HTTP/1.0\r\nHost: {place}\r\n\r\n".encode())
        answer = b""
        while len(answer) < MOST_READ and (more := line.recv(MOST_READ)):
            answer += more
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(None, 2)[1]), body.decode("utf-8", "replace")
