"""A small OpenID Connect issuer on a real socket, which tests rotate, break and stop."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

AUDIENCE = "trainard"
PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey


@cache
def rsa_key(name: str, bits: int = 2048) -> RSAPrivateKey:  # noqa: ARG001 - one for each name
    """Making one takes longer than a test."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def new_ec() -> EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: PrivateKey, **more: str) -> dict[str, Any]:
    """The public half as an entry of a key set."""
    if isinstance(key, RSAPrivateKey):
        found = RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    else:
        found = ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {**found, **more}


class Issuer:
    """What it publishes, and how often it was asked for its keys."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {"rsa-1": rsa_key("rsa-1"), "ec-1": new_ec()}
        self.url = ""
        self.times_asked = 0
        # An answer in place of the key set: status, headers, body
        self.broken: tuple[int, dict[str, str], bytes] | None = None
        self.jwks_uri: str | None = None
        self.more_keys: list[dict[str, Any]] = []

    def token(
        self,
        key_id: str | None = "rsa-1",
        key: PrivateKey | None = None,
        algorithm: str = "",
        **claims: Any,
    ) -> str:
        """A signed token; a claim of None is left out."""
        signer = key or self.keys[key_id or "rsa-1"]
        default = "RS256" if isinstance(signer, RSAPrivateKey) else "ES256"
        now = int(time.time())
        body = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "user-1",
            "iat": now,
            "exp": now + 300,
            "roles": ["sre"],
            "email": "ada@corp.example",
            **claims,
        }
        present = {name: value for name, value in body.items() if value is not None}
        headers = {"kid": key_id} if key_id else None
        return jwt.encode(present, signer, algorithm or default, headers=headers)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        if path == "/.well-known/openid-configuration":
            described = {"issuer": self.url, "jwks_uri": self.jwks_uri or f"{self.url}/jwks"}
            return 200, {}, json.dumps(described).encode()
        if path != "/jwks":
            return 404, {}, b""
        self.times_asked += 1
        if self.broken is not None:
            return self.broken
        keys = [public_jwk(key, kid=key_id, use="sig") for key_id, key in self.keys.items()]
        return 200, {}, json.dumps({"keys": [*keys, *self.more_keys]}).encode()


@contextmanager
def running(issuer: Issuer) -> Iterator[Issuer]:
    """Serve it until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = issuer.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def base64url(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A token as no library makes it."""
    parts = [json.dumps(part).encode() for part in (header, claims)]
    return ".".join(base64url(part) for part in (*parts, signature))
