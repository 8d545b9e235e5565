"""What of the suite the service does not pass, and why: by revision, scenario and check."""

from __future__ import annotations

from typing import Final

CONTENT: Final = (
    "A tool answers with JSON, as text and as structured content: what is remembered is text and "
    "numbers, and no tool has an image, a sound or a file to show."
)
BINARY: Final = "Resources are what tools answer, which is JSON: none of them is binary."
LOGGING: Final = (
    "The service does not declare the capability `logging`: what it logs is for its operator, on "
    "stderr, and goes to no client."
)
ASKING: Final = (
    "No tool asks its client for anything (sampling, elicitation, roots): a call says all that is "
    "needed to decide it, so that the same log gives the same state. So nothing waits for input, "
    "and no capability of a client is required."
)
SUBSCRIBING: Final = (
    "Over HTTP a request of this revision is over once it is answered, and no session is kept: "
    "there is nothing to send a notification on, so `resources.subscribe` is declared false. It is "
    "there over stdio, and over HTTP as `subscriptions/listen` from 2026-07-28 on."
)
SESSIONS: Final = (
    "No session is kept, so none is named, which is for a server to choose. What it looks at "
    "then, several requests at a time, the scenario does look at on 2026-07-28."
)

_BOTH: Final = {
    "tools-call-image:tools-call-image": CONTENT,
    "tools-call-audio:tools-call-audio": CONTENT,
    "tools-call-embedded-resource:tools-call-embedded-resource": CONTENT,
    "tools-call-mixed-content:tools-call-mixed-content": CONTENT,
    "resources-read-binary:resources-read-binary": BINARY,
}

EXPLAINED: Final = {
    "2025-11-25": {
        **_BOTH,
        "logging-set-level:logging-set-level": LOGGING,
        "tools-call-with-logging:tools-call-with-logging": LOGGING,
        "tools-call-sampling:tools-call-sampling": ASKING,
        "tools-call-elicitation:tools-call-elicitation": ASKING,
        "elicitation-sep1034-defaults:elicitation-sep1034-general": ASKING,
        "elicitation-sep1330-enums:elicitation-sep1330-general": ASKING,
        "server-sse-multiple-streams:server-sse-multiple-streams-session": SESSIONS,
        "resources-subscribe:resources-subscribe": SUBSCRIBING,
        "resources-unsubscribe:resources-unsubscribe": SUBSCRIBING,
    },
    "2026-07-28": {
        **_BOTH,
        "server-stateless:sep-2575-server-rejects-undeclared-capability": ASKING,
        "server-stateless:sep-2575-missing-capability-http-400": ASKING,
        "input-required-result-basic-elicitation:sep-2322-elicitation-incomplete": ASKING,
        "input-required-result-basic-sampling:sep-2322-sampling-incomplete": ASKING,
        "input-required-result-basic-list-roots:sep-2322-list-roots-incomplete": ASKING,
        "input-required-result-request-state:sep-2322-request-state-incomplete": ASKING,
        "input-required-result-multiple-input-requests:sep-2322-multiple-inputs-incomplete": ASKING,
        "input-required-result-multi-round:sep-2322-multi-round-r1": ASKING,
        "input-required-result-missing-input-response:sep-2322-missing-response-rerequests": ASKING,
        "input-required-result-non-tool-request:sep-2322-non-tool-incomplete": ASKING,
        "input-required-result-result-type:sep-2322-result-type-included": ASKING,
        "input-required-result-tampered-state:sep-2322-reject-tampered-state": ASKING,
        "input-required-result-capability-check:sep-2322-respect-client-capabilities": ASKING,
        "input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params": ASKING,
    },
}
