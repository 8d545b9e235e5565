"""Whatever is wrong with a call, it is refused with a clear sentence, and it is on the log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.conftest import Client, Message, run

ELEVEN = json.dumps({f"task.step{i}": i for i in range(11)})
SORT = {"field": "spatial.position", "target": [1, 2, 3]}


def recall(**more: Any) -> tuple[str, dict[str, Any]]:
    return "recall", {"query": "cups", **more}


BAD = {
    "an empty insight": (
        ("learn", {"insight": ""}),
        "insight must be text of at least 1 characters",
    ),
    "a blank insight": (("learn", {"insight": " \n\t "}), "insight must not be empty: say"),
    "no insight": (("learn", {}), "insight is required"),
    "an insight that is no text": (("learn", {"insight": 5}), "insight must be text"),
    "n of 0": (recall(n=0), "n must be a whole number from 1 to 100, not 0"),
    "n of 101": (recall(n=101), "n must be a whole number from 1 to 100, not 101"),
    "min_confidence of 1.5": (recall(min_confidence=1.5), "min_confidence must be a number"),
    "context that is not JSON": (
        ("learn", {"insight": "a", "context": "{grip"}),
        "context must be a JSON object as text",
    ),
    "context that is no object": (
        ("learn", {"insight": "a", "context": "[1]"}),
        "context must be a JSON object, not a list",
    ),
    "data that is not JSON": (
        ("save_perception", {"description": "a wet cup", "data": "{"}),
        "data must be a JSON object as text",
    ),
    "data that is no object": (
        ("save_perception", {"description": "a wet cup", "data": "7"}),
        "data must be a JSON object, not a number",
    ),
    "metadata that is not JSON": (
        ("save_perception", {"description": "a wet cup", "metadata": "x"}),
        "metadata must be a JSON object as text",
    ),
    "metadata that is no object": (
        ("save_perception", {"description": "a wet cup", "metadata": "null"}),
        "metadata must be a JSON object, not null",
    ),
    "context_filter that is not JSON": (
        recall(context_filter="{"),
        "context_filter must be a JSON object as text",
    ),
    "context_filter that is no object": (
        recall(context_filter="[]"),
        "context_filter must be a JSON object, not a list",
    ),
    "spatial_sort that is not JSON": (
        recall(spatial_sort="near"),
        "spatial_sort must be a JSON object as text",
    ),
    "spatial_sort that is no object": (
        recall(spatial_sort="3"),
        "spatial_sort must be a JSON object, not a number",
    ),
    "an unknown operator": (
        recall(context_filter='{"task.n": {"$regex": "a"}}'),
        "context_filter knows the operators $lt, $lte, $gt, $gte, $ne, not '$regex'",
    ),
    "eleven conditions": (
        recall(context_filter=ELEVEN),
        "context_filter has 11 conditions; at most 10 are allowed",
    ),
    "a target that is not numbers": (
        recall(spatial_sort=json.dumps({**SORT, "target": ["a"]})),
        "spatial_sort.target must be a list of finite numbers",
    ),
    "a target of NaN": (
        recall(spatial_sort='{"field": "spatial.position", "target": [NaN]}'),
        "spatial_sort must be a JSON object as text",
    ),
    "a largest distance of 400 digits": (
        recall(spatial_sort=json.dumps({**SORT, "max_distance": 10**400})),
        "max_distance must be a number",
    ),
    "memory_id of 0": (("forget", {"memory_id": 0, "reason": "x"}), "memory_id must be a whole"),
    "memory_id of -1": (("update", {"memory_id": -1, "new_content": "x"}), "memory_id must be"),
    "an unknown memory_id": (
        ("forget", {"memory_id": 10**9, "reason": "x"}),
        "Memory 1000000000 does not exist",
    ),
    "an unknown perception_type": (
        ("save_perception", {"description": "a wet cup", "perception_type": "smell"}),
        "perception_type must be one of visual",
    ),
    "a description of 4 characters": (
        ("save_perception", {"description": "wet!"}),
        "description must be text of 5 to",
    ),
    "an unknown session to end": (
        ("end_session", {"session_id": "nope"}),
        "Session 'nope' does not exist; start_session makes one",
    ),
    "an unknown session to learn into": (
        ("learn", {"insight": "a", "session_id": "nope"}),
        "Session 'nope' does not exist in collection 'default'",
    ),
    "an unknown argument": (("learn", {"insight": "a", "mood": "good"}), "Unknown argument 'mood'"),
    "a 5 MB argument": (("learn", {"insight": "x" * 5_000_000}), "too large"),
    "a collection of 1,000 characters": (
        ("learn", {"insight": "a", "collection": "c" * 1000}),
        "collection must be text of 1 to 128 characters",
    ),
    "a collection with control characters": (
        ("learn", {"insight": "a", "collection": "a\x00b"}),
        "has no control characters",
    ),
    "half a surrogate pair": (("learn", {"insight": "a \ud83d b"}), "surrogate"),
    "a number that is not one": (
        recall(spatial_sort={**SORT, "target": [float("nan")]}),
        "NaN",
    ),
    "an unknown tool": (("remember", {"insight": "a"}), "Unknown tool 'remember'"),
    "arguments that are a list": (("learn", ["a"]), "arguments (an object)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_a_clear_sentence(client: Client, name: str) -> None:
    (tool, arguments), expected = BAD[name]
    sentence = client.refused(tool, arguments)
    assert expected in sentence
    assert len(sentence) < 300
    assert "Traceback" not in sentence


def test_what_is_forgotten_cannot_be_forgotten_or_updated(client: Client, collection: str) -> None:
    number = client.ok("learn", {"insight": "grip at 15N", "collection": collection})["memory_id"]
    client.ok("forget", {"memory_id": number, "reason": "wrong sensor"})
    already = f"Memory {number} was already forgotten"
    assert already in client.refused("forget", {"memory_id": number, "reason": "again"})
    assert already in client.refused("update", {"memory_id": number, "new_content": "grip at 9N"})


def test_an_ended_session_takes_nothing_more(client: Client, collection: str) -> None:
    session = client.ok("start_session", {"collection": collection})["session_id"]
    assert "outcome_score must be" in client.refused(
        "end_session", {"session_id": session, "outcome_score": 2}
    )
    client.ok("end_session", {"session_id": session, "outcome_score": 0.5})
    assert "has already ended" in client.refused("end_session", {"session_id": session})
    assert "has ended; start_session makes a new one" in client.refused(
        "learn", {"insight": "too late", "collection": collection, "session_id": session}
    )


def test_a_session_belongs_to_its_collection(client: Client, collection: str) -> None:
    session = client.ok("start_session", {"collection": collection})["session_id"]
    sentence = client.refused(
        "learn", {"insight": "elsewhere", "collection": "other", "session_id": session}
    )
    # A session of another partition is not even looked at here.
    assert collection in sentence or "does not exist in collection 'other'" in sentence


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/', -32700, "not valid JSON"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
            b'{"name":"learn","arguments":{"insight":"\xff\xfe"}}}',
            -32700,
            "not valid UTF-8",
        ),
        (b"[" * 100_000, -32700, "nested too deeply"),
        (b"[]", -32600, "one JSON-RPC object"),
        (b'{"jsonrpc": "2.0", "method": 7}', -32600, "JSON-RPC 2.0 request"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, "whole number or text"),
        (
            b'{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":'
            b'{"name":"learn","arguments":{"insight":"a"}}}',
            -32600,
            "whole number or text",
        ),
    ],
    ids=["cut off", "invalid UTF-8", "too deep", "a batch", "no request", "id null", "id 1.5"],
)
def test_what_is_no_message_gets_an_error(
    client: Client, data: bytes, code: int, words: str
) -> None:
    message = client.send_raw(data)
    assert message["id"] is None
    assert message["error"]["code"] == code
    assert words in message["error"]["message"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[" * 120 + "]" * 120, "nested too deeply"),
        ("[" * 300 + "]" * 300, "nested too deeply"),
        ("1" * 5000, "a number of too many digits"),
    ],
    ids=["120 levels", "300 levels", "5,000 digits"],
)
def test_what_is_json_and_cannot_be_kept(client: Client, value: str, words: str) -> None:
    call = '{"jsonrpc":"2.0","id":4712,"method":"tools/call","params":{"name":"learn","arguments":'
    message = client.send_raw((call + f'{{"insight":{value}}}}}}}').encode())
    assert message["id"] == 4712
    assert words in json.dumps(message)


DIGITS = "9" * 5000
IDS = ',"id":1' * 40_000


@pytest.mark.parametrize(
    "data",
    [
        f'{{"jsonrpc":"2.0","id":{DIGITS},"method":"tools/call","params":{{}}}}',
        f'{{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{{"n":{DIGITS}}}}}',
        f'{{"method":"tools/call","params":{{"n":{DIGITS}{IDS}}}}}',
    ],
    ids=["an id of 5,000 digits", "an id that is no text", "very many ids"],
)
def test_a_message_without_an_id_that_could_be_answered(client: Client, data: str) -> None:
    message = client.send_raw(data.encode())
    assert message["id"] is None
    assert "too many digits" in message["error"]["message"]
    client.ok("read_graph", {"limit": 1})  # It goes on.


def test_a_message_over_the_limit_is_answered_under_its_id(client: Client) -> None:
    call = '{"method":"tools/call","params":{"name":"learn","arguments":{"insight":"%s"}}'
    data = (call % ("x" * 17_000_000) + ',"jsonrpc":"2.0","id":4711}').encode()
    message = client.send_raw(data)
    assert message["id"] == 4711
    assert "too large" in message["error"]["message"]


def test_bad_meta_is_refused(client: Client, collection: str) -> None:
    learn = {"insight": "a", "collection": collection}
    assert "_meta.idempotency_key" in client.refused("learn", learn, {"idempotency_key": 5})
    assert "_meta.actor" in client.refused("learn", learn, {"actor": "a\nb"})


def test_what_was_refused_is_on_the_log(client: Client, collection: str) -> None:
    """Also what could not be read, and what was too large to keep."""
    client.refused("learn", {"insight": "", "collection": collection})
    client.refused("unheard_of", {"collection": collection})
    client.refused("learn", ["misshapen", collection])
    client.refused("learn", {"collection": collection, "insight": "x" * 2_000_000})
    client.send_raw(f'{{"broken": "{collection}'.encode())
    params = {"name": "learn", "arguments": {"insight": "a", "collection": collection}}
    call = {"jsonrpc": "2.0", "id": 1.5, "method": "tools/call", "params": params}
    client.send_raw(json.dumps(call).encode())
    shown = run("audit", "log", "--data", str(client.data), "--last", "20", "--refused", "--json")
    assert shown.returncode == 0, shown.stderr
    mine = [one for one in json.loads(shown.stdout) if collection in json.dumps(one)]
    tools = sorted(one["tool"] for one in mine)
    assert tools == ["(unreadable)", "learn", "learn", "learn", "learn", "unheard_of"]


def test_a_position_that_is_too_large_is_none(client: Client, collection: str) -> None:
    context = json.dumps({"spatial": {"position": [10**400, 0, 0]}})
    learn = {"insight": "far away", "context": context, "collection": collection}
    number = client.ok("learn", learn)["memory_id"]
    _, query = recall(spatial_sort=json.dumps(SORT), collection=collection)
    found = client.ok("recall", {**query, "query": "far away"})["memories"]
    assert [(one["id"], "_distance" in one) for one in found] == [(number, False)]


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({"after": "abc"}, "such as 0:41"),
        ({"after": "9999:41"}, "after names partition 9999, and the log has"),
        ({"consistency": "eventual"}, "can be strong"),
        ({"after": 7}, "_meta.after"),
    ],
)
def test_a_wrong_meta_is_refused(client: Client, meta: Message, words: str) -> None:
    assert words in client.refused("recall", {"query": "cups"}, meta)
