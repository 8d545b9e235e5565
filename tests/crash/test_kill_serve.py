"""`mnemolog serve` killed under load, and its neighbours on the same directory."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random

from tests.crash import stored
from tests.crash.process import NO_MODEL, Gone, Stdio
from tests.crash.server import Http, Server
from tests.crash.writer import Writer, ask_again, write, write_one

ROUNDS = 4
CLIENTS = 4


def load(port: int, writer: Writer, failures: list[BaseException]) -> None:
    """One client's thread: writes until the server is gone."""
    with closing(Http(port)) as client:
        try:
            write(client, writer)
        except Gone:
            return
        except BaseException as error:
            failures.append(error)


def test_a_server_killed_under_load_loses_nothing(data: Path, chance: Random) -> None:
    writers = [Writer(name, Random(chance.random())) for name in range(1, CLIENTS + 1)]
    for turn in range(ROUNDS):
        with Server(data, model=None if turn == ROUNDS - 1 else NO_MODEL) as server:
            port = server.port()
            with closing(Http(port)) as client:
                for writer in writers:
                    ask_again(client, writer, share=0.5)
            stored.check(data, *writers)
            failures: list[BaseException] = []
            threads = [
                threading.Thread(target=load, args=(port, writer, failures), daemon=True)
                for writer in writers
            ]
            before = sum(one.acknowledged for one in writers)
            for thread in threads:
                thread.start()
            while sum(one.acknowledged for one in writers) == before and not failures:
                assert server.process.poll() is None
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 0.5))
            server.kill()
            for thread in threads:
                thread.join()
            if failures:
                raise failures[0]
    with Server(data, model=None) as server, closing(Http(server.port())) as client:
        for writer in writers:
            ask_again(client, writer)
            write_one(client, writer)
        stored.check(data, *writers)
        for writer in writers:
            stored.check_answers(client, writer)
        assert server.terminate() == 0
    stored.check_whole(data)
    stored.check_rebuild(data, model=None)


def test_a_second_server_is_refused_while_the_first_runs(data: Path) -> None:
    with Server(data) as server:
        with closing(Http(server.port())) as client:
            second = stored.run(data, "serve", "--port", "0")
            assert second.code == 1 and second.out == ""
            assert "Another `mnemolog serve`" in second.err
            assert str(server.process.pid) in second.err and "Traceback" not in second.err
            assert client.call("learn", {"insight": "Trial 1: it still runs"}).error is None
        server.kill()
        server.process.wait()
        with Server(data) as third:
            third.port()  # the place is free again


def test_a_client_beside_a_server(data: Path, chance: Random) -> None:
    """Both on one directory, whichever came first; each goes on when the other is killed."""
    http, stdio = Writer(1, chance), Writer(2, chance)
    with Server(data) as server, closing(Http(server.port())) as client, Stdio(data) as beside:
        for _ in range(20):
            write_one(client, http)
            write_one(beside, stdio)
        stored.check_answers(client, stdio)
        stored.check_answers(beside, http)
        server.kill()
        for _ in range(20):
            write_one(beside, stdio)  # it takes over
        with Server(data) as again, closing(Http(again.port())) as guest:
            for _ in range(20):
                write_one(guest, http)
                write_one(beside, stdio)
            beside.kill()
            for _ in range(20):
                write_one(guest, http)  # so does the server
            stored.check_answers(guest, stdio)
            stored.check_answers(guest, http)
            assert again.terminate() == 0
    stored.check(data, http, stdio)
    stored.check_whole(data)
    stored.check_rebuild(data)
