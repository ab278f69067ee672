"""The page and its files, by their content: a browser asks for a file again only if it has changed."""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


async def _page(request: Request) -> Response:
    """The page. Its addresses are relative: without the last slash of its own they would lead elsewhere."""
    # As it was asked for: the path of a mounted application may have a slash more.
    asked: bytes = request.scope.get("raw_path") or request.url.path.encode()
    if not asked.endswith(b"/"):
        return RedirectResponse(asked.decode("latin-1").rpartition("/")[2] + "/", 307)
    return _file(request, "index.html")


async def _static(request: Request) -> Response:
    return _file(request, request.path_params["name"])


def _file(request: Request, name: str) -> Response:
    if (found := _files().get(name)) is None:
        return Response(status_code=404)
    content, kind, tag = found
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=kind, headers=headers)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """The content, type and tag of each file, by its path below `static`."""
    found: dict[str, tuple[bytes, str, str]] = {}
    _gather(files("asyncq.web") / "static", "", found)
    return found


def _gather(folder: Traversable, above: str, found: dict[str, tuple[bytes, str, str]]) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            _gather(entry, f"{above}{entry.name}/", found)
        elif kind := TYPES.get("." + entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            found[above + entry.name] = content, kind, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


ROUTES: list[BaseRoute] = [
    Route("/static/{name:path}", _static),
    Route("/", _page),
]
