"""Two tenants on one server, told apart by their keys: whatever way the rival looks, it sees what
it would see alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from tests.auth.conftest import JSON, Known, put
from tests.e2e.conftest import Server

SECRET = "quetzalcoatl"
"""A word in everything that Acme says."""
RESOURCES = (
    "mnemolog://events",
    "mnemolog://events/graph",
    "mnemolog://events/episodes",
    f"mnemolog://events/robot/{SECRET}",
    "memory://graph",
    "memory://episodes",
    f"memory://entities/{SECRET}",
    f"memory://episodes/domains/{SECRET}",
)
EVENTS = (
    "?after=start&follow=false",
    "?last=50&follow=false",
    "?after=start&space=graph&follow=false",
)


def fill(acme: Known) -> str:
    """Something of everything; a position of it."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("learn", {"insight": f"{SECRET} slips when wet", "collection": SECRET}),
        ("start_session", {"collection": SECRET}),
        (
            "create_entities",
            {"entities": [{"name": SECRET, "observations": [f"{SECRET} is here"]}]},
        ),
        ("add_reflection", {"target_type": "global", "content": f"{SECRET} again"}),
        (
            "create_episode",
            {
                "task_description": SECRET,
                "domain": SECRET,
                "task_type": "testing",
                "tags": [SECRET],
            },
        ),
    ]
    for tool, arguments in asked:
        acme.ok(tool, arguments)
    answer = acme.asked("recall", {"query": SECRET, "collection": SECRET}).json
    assert SECRET in json.dumps(answer)
    return str(answer["result"]["_meta"]["position"])


def shown(rival: Known) -> dict[str, Any]:
    """All that can be read without naming anything, and by Acme's names."""
    found: dict[str, Any] = {}
    for uri in RESOURCES:
        found[uri] = rival.ask("resources/read", {"uri": uri})
    for method in ("resources/list", "resources/templates/list", "tools/list", "prompts/list"):
        found[method] = rival.ask(method)
    for argument, template in (
        ("entity", "memory://entities/{entity}"),
        ("domain", "memory://episodes/domains/{domain}"),
        ("collection", "mnemolog://events/robot/{collection}"),
    ):
        ref = {"type": "ref/resource", "uri": template}
        params = {"ref": ref, "argument": {"name": argument, "value": SECRET[:2]}}
        found[template] = rival.ask("completion/complete", params)
    for query in EVENTS:
        found[query] = rival.told(f"/events{query}").body.decode()
    for path in ("/healthz", "/readyz", "/livez", "/", "/metrics"):
        told = rival.told(path)
        found[path] = (told.status, told.body.decode() if path != "/metrics" else "")
    return found


def test_a_rival_sees_what_it_would_see_alone(serve: Callable[..., Server]) -> None:
    told = []
    for alone in (True, False):
        server = serve("--auth", "keys", env={"MNEMOLOG_PARTITIONS": "1"})
        acme = Known(server, put(server.data, "arm-1", "acme", "read write admin"))
        rival = Known(server, put(server.data, "spy", "rival"))
        position = "start" if alone else fill(acme)
        # A position of Acme's shows the rival's own, which is nothing.
        after = rival.told(f"/events?after={position}&follow=false").body.decode()
        assert "decided" not in after
        assert rival.ok("recall", {"query": SECRET}, {"after": position})["memories"] == []
        told.append({key: _masked(one) for key, one in shown(rival).items()})
    for key, one in told[0].items():
        assert one == told[1][key], key


def _masked(found: Any) -> str:
    """Without how far the log is, which is everybody's."""
    return re.sub(r"\b(\d+:\d+|start)\b", "a position", json.dumps(found))


def test_what_an_operator_sees_names_no_tenant(serve: Callable[..., Server]) -> None:
    server = serve("--auth", "keys")
    fill(Known(server, put(server.data, "arm-1", "acme", "read write")))
    operator = Known(server, put(server.data, "ops", "operations", "admin"))
    for path in ("/metrics", "/healthz", "/readyz"):
        told = operator.told(path)
        assert told.status == 200
        assert SECRET not in told.body.decode()
        assert "acme" not in told.body.decode() and "arm-1" not in told.body.decode()
    assert operator.told("/events").status == 403
    assert (
        operator.told("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', **JSON).status
        == 200
    )
