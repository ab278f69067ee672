"""The launcher of throw-away PostgreSQL servers, for demo, dev, tests and benchmarks; a worker never starts one."""

from asyncq.server.binaries import Binaries, available_binaries, find_binaries
from asyncq.server.errors import ServerBinariesNotFound, ServerFailed
from asyncq.server.launcher import Server, start

__all__ = [
    "Binaries",
    "Server",
    "ServerBinariesNotFound",
    "ServerFailed",
    "available_binaries",
    "find_binaries",
    "start",
]
