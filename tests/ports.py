"""Ports that nobody else gets while a test counts on them."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


class HeldPort:
    """A port of the loopback on which nobody listens, and which is given to nobody else.

    It is bound and does not listen, so connections are refused. A server that sets SO_REUSEADDR,
    as those of Python and Java do, can listen on it nevertheless, and stop, and come back.
    """

    def __init__(self, number: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((HOST, number))
        self.number: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.number}"

    def release(self) -> None:
        self._socket.close()
