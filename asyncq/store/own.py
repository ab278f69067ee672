"""The connections of asyncq to the server. A forked child closes its copies of their sockets.

While any process has a copy of a socket open, the server does not notice the death of the worker. It keeps the session
and its locks, and notifications for it accumulate, until the child ends too.
"""

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
        """Close a forked child's copy of the socket, without a message to the server.

        /dev/null replaces the socket under its number. Objects that still use the number can then harm neither the
        parent's session nor a file that gets the number next.
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
