"""An authorization server on loopback: `python -m tests.auth.server PORT`.

It describes itself (RFC 8414, OpenID Connect), registers clients (RFC 7591), gives codes without
asking anybody (PKCE, RFC 7636), tokens for a resource (RFC 8707), tells about them (RFC 7662) and
takes them back (RFC 7009). Below /test tests have it sign what they like, and change its keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Json = dict[str, Any]

CLIENT = ("memory:1", "a secret/+ of ours")
"""Who may introspect."""


class Signing:
    """A key of the server's, for one algorithm."""

    def __init__(self, algorithm: str, kid: str) -> None:
        self.algorithm, self.kid = algorithm, kid
        public: Any
        if algorithm == "ES256":
            self.key: Any = ec.generate_private_key(ec.SECP256R1())
            public = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        elif algorithm == "EdDSA":
            self.key = ed25519.Ed25519PrivateKey.generate()
            public = OKPAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        else:
            self.key = rsa.generate_private_key(65537, 2048)
            public = RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        names = ("kty", "n", "e", "crv", "x", "y")
        self.jwk = {name: public[name] for name in names if name in public} | {"kid": kid}


class AuthorizationServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.keys = [Signing("RS256", "first")]
        self.counts: dict[str, int] = {}
        self.codes: dict[str, Json] = {}
        self.opaque: dict[str, Json] = {}
        self.revoked: set[str] = set()
        self.grants: Json = {}

    def minted(self, claims: Json, header: Json, without: list[str], *, opaque: bool) -> str:
        """A token with these claims over the usual ones."""
        now = int(time.time())
        usual = {"iss": self.url, "sub": "alice", "iat": now, "exp": now + 600}
        whole = {**usual, "jti": secrets.token_hex(8), **claims}
        whole = {name: value for name, value in whole.items() if name not in without}
        if opaque:
            token = secrets.token_urlsafe(32)
            self.opaque[token] = whole
            return token
        using = next((one for one in self.keys if one.algorithm == header.get("alg")), self.keys[0])
        headers = {"kid": using.kid, "typ": "at+jwt", **header}
        headers.pop("alg", None)
        algorithm = header.get("alg", using.algorithm)
        return jwt.encode(whole, using.key, algorithm=algorithm, headers=headers)

    def known(self, token: str) -> Json | None:
        """What a token says that is one of this server's and was not taken back."""
        if token in self.revoked:
            return None
        if token in self.opaque:
            return self.opaque[token]
        options: Any = {"verify_aud": False}
        for one in self.keys:
            try:
                found: Json = jwt.decode(
                    token, one.key.public_key(), algorithms=[one.algorithm], options=options
                )
            except jwt.PyJWTError:
                continue
            return found
        return None

    # --- what others ask -------------------------------------------------------------------------

    async def about(self, request: Request) -> Response:
        self._count("about")
        return JSONResponse(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "registration_endpoint": f"{self.url}/register",
                "introspection_endpoint": f"{self.url}/introspect",
                "revocation_endpoint": f"{self.url}/revoke",
                "jwks_uri": f"{self.url}/jwks",
                "response_types_supported": ["code"],
                "grant_types_supported": ["authorization_code"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True,
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def jwks(self, request: Request) -> Response:
        self._count("jwks")
        return JSONResponse({"keys": [one.jwk for one in self.keys]})

    async def register(self, request: Request) -> Response:
        given = await request.json()
        made = {"client_id": secrets.token_hex(8), "token_endpoint_auth_method": "none"}
        return JSONResponse({**given, **made}, 201)

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(16)
        self.codes[code] = asked
        back = {"code": code, "state": asked["state"], "iss": self.url}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 302)

    async def token(self, request: Request) -> Response:
        given = await _form(request)
        asked = self.codes.pop(given.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != given["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        claims = {"aud": given["resource"], "scope": asked.get("scope", ""), **self.grants}
        token = self.minted(claims, {}, [], opaque=False)
        scope = claims["scope"]
        about = {"access_token": token, "token_type": "Bearer", "expires_in": 600, "scope": scope}
        return JSONResponse(about)

    async def introspect(self, request: Request) -> Response:
        self._count("introspect")
        kind, _, pair = request.headers.get("authorization", "").partition(" ")
        given = base64.b64decode(pair).decode() if kind == "Basic" else ""
        if tuple(map(unquote_plus, given.split(":"))) != CLIENT:
            return JSONResponse({"error": "invalid_client"}, 401)
        found = self.known((await _form(request)).get("token", ""))
        return JSONResponse({"active": False} if found is None else {"active": True, **found})

    async def revoke(self, request: Request) -> Response:
        self.revoked.add((await _form(request))["token"])
        return Response()

    # --- what tests ask --------------------------------------------------------------------------

    async def mint(self, request: Request) -> Response:
        given = await request.json()
        token = self.minted(
            given.get("claims", {}),
            given.get("header", {}),
            given.get("without", []),
            opaque=given.get("opaque", False),
        )
        return JSONResponse({"token": token})

    async def change(self, request: Request) -> Response:
        """New keys, each as [algorithm, kid]; and what those who come for a token are granted."""
        given = await request.json()
        if "keys" in given:
            self.keys = [Signing(*one) for one in given["keys"]]
        self.grants = given.get("grants", self.grants)
        return JSONResponse({})

    async def counted(self, request: Request) -> Response:
        return JSONResponse(self.counts)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


async def _form(request: Request) -> dict[str, str]:
    return dict(parse_qsl((await request.body()).decode()))


def main() -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[1])))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    here = AuthorizationServer(url)
    app = Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", here.about),
            Route("/.well-known/openid-configuration", here.about),
            Route("/jwks", here.jwks),
            Route("/register", here.register, methods=["POST"]),
            Route("/authorize", here.authorize),
            Route("/token", here.token, methods=["POST"]),
            Route("/introspect", here.introspect, methods=["POST"]),
            Route("/revoke", here.revoke, methods=["POST"]),
            Route("/test/mint", here.mint, methods=["POST"]),
            Route("/test/change", here.change, methods=["POST"]),
            Route("/test/counts", here.counted),
        ]
    )
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    listening.listen(64)
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    server.run(sockets=[listening])


if __name__ == "__main__":
    main()
