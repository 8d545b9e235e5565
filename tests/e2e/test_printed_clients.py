"""The clients that the documents of the episodes family print, as they are printed: a plain POST of
one `tools/call`, without a handshake, from Python and from JavaScript."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mnemolog.infra.sandbox.sandbox import find_deno
from tests.e2e.conftest import Server


class MemoryMCPClient:
    """Posts what a script of a user would post, and reads what comes back as JSON."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.request_id = 0

    def call(self, tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.request_id += 1
        response = httpx.post(
            f"{self.base_url}/mcp",
            json={
                "jsonrpc": "2.0",
                "id": self.request_id,
                "method": "tools/call",
                "params": {"name": tool_name, "arguments": arguments},
            },
            # What `requests` sends, which the printed client uses.
            headers={"Accept": "*/*", "User-Agent": "python-requests/2.32"},
            timeout=60,
        )
        found: dict[str, Any] = response.json()
        return found


JAVASCRIPT = """
const base = Deno.args[0];
async function call(id, name, args) {
  const response = await fetch(`${base}/mcp`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({
      jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args },
    }),
  });
  return response.json();
}
const created = await call(1, "create_episode", {
  task_description: "Implement authentication", domain: "web-api", task_type: "code_generation",
});
const found = await call(2, "query_memory", { query: "authentication", domain: "web-api" });
console.log(JSON.stringify({ created, found }));
"""


@pytest.fixture
def base_url(tmp_path: Path) -> Iterator[str]:
    server = Server(tmp_path / "data")
    try:
        yield server.url
    finally:
        server.stop()


def text_of(reply: dict[str, Any]) -> dict[str, Any]:
    assert reply["result"]["isError"] is False
    found: dict[str, Any] = json.loads(reply["result"]["content"][0]["text"])
    return found


def test_the_python_client_works_as_printed(base_url: str) -> None:
    client = MemoryMCPClient(base_url)
    asked = {
        "task_description": "Implement authentication",
        "domain": "web-api",
        "task_type": "code_generation",
    }
    episode = text_of(client.call("create_episode", asked))
    assert episode["status"] == "active"
    found = text_of(client.call("query_memory", {"query": "authentication", "domain": "web-api"}))
    assert [one["id"] for one in found["episodes"]] == [episode["episode_id"]]
    wrong = client.call("create_episode", {"task_description": "x", "task_type": "testing"})
    assert wrong["error"]["code"] == -32005
    assert wrong["error"]["data"] == {
        "field": "domain",
        "issue": "Field is required",
        "value": None,
    }


def test_the_javascript_client_works_as_printed(base_url: str, tmp_path: Path) -> None:
    deno = find_deno()
    assert deno is not None, "Deno is missing: make setup"
    script = tmp_path / "client.js"
    script.write_text(JAVASCRIPT)
    done = subprocess.run(
        [deno, "run", "--allow-net=127.0.0.1,localhost", str(script), base_url],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    created = text_of(told["created"])
    assert [one["id"] for one in text_of(told["found"])["episodes"]] == [created["episode_id"]]
