"""Our own connections to the server, whose sockets a forked child gives up.

While any process has a copy of a socket open, the server does not see that the process which used it has died. It would
keep the session and its locks, and notifications for it would pile up, until the child ends too.
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakSet

import asyncpg


class OwnConnection(asyncpg.Connection):
    """An asyncpg connection that belongs to the process that opened it."""

    __slots__ = ()

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        _open.add(self)

    def give_up(self, nothing: int) -> None:
        """Called in a forked child: close its copy of the socket, without a word to the server.

        Args:
            nothing: A descriptor of /dev/null, which takes the socket's number: the objects that know the number can
                then do no harm, to the parent's session or to a file that gets the number next.
        """
        transport: Any = self._transport
        socket = transport.get_extra_info("socket")
        if socket is not None and socket.fileno() >= 0:
            os.dup2(nothing, socket.fileno(), inheritable=False)


_open: WeakSet[OwnConnection] = WeakSet()


def _give_up_all() -> None:
    copies = list(_open)
    _open.clear()
    if not copies:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        for connection in copies:
            connection.give_up(nothing)
    finally:
        os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_give_up_all)
