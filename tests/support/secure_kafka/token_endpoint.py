"""A token endpoint (OAuth 2.0's client credentials) over TLS, in a thread of the test's process."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jwt.algorithms import RSAAlgorithm

AUDIENCE = "kafka"
LIFE = 3600  # s


def signed_token(key: Any, user: str, life: float) -> str:
    """A token that the broker accepts for `life` s. `key`: a private key, or its PEM."""
    now = int(time.time())
    claims = {"sub": user, "aud": AUDIENCE, "iat": now, "exp": now + int(life)}
    return jwt.encode(claims, key, "RS256", {"kid": "k1"})


class TokenEndpoint:
    """`url` issues tokens to one client; `keys` is the file with the public keys (a JWKS)."""

    def __init__(self, folder: Path, files: tuple[Path, Path], client: tuple[str, str]) -> None:
        """`files`: certificate and key of the server; `client`: its id and secret."""
        self._id, secret = client
        self.secrets = {secret}
        self._key = generate_private_key(public_exponent=65537, key_size=2048)
        public = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        self.keys = folder / "jwks.json"
        entry = {**public, "kid": "k1", "alg": "RS256", "use": "sig"}
        self.keys.write_text(json.dumps({"keys": [entry]}))
        self.forms: list[dict[str, list[str]]] = []
        self.life = LIFE
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                form = parse_qs(self.rfile.read(length).decode())
                status, document = endpoint._answer(self.headers.get("Authorization", ""), form)
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*map(str, files))
        # without this, the handshake would be in the thread that accepts connections
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}/token"
        loop = self._server.serve_forever
        self._thread = threading.Thread(target=loop, args=(0.02,), daemon=True)

    def token(self) -> str:
        """A new token of the client."""
        return signed_token(self._key, self._id, self.life)

    def write_key(self, path: Path) -> None:
        """Write the private key as PEM, for a function that signs tokens itself."""
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        path.write_bytes(self._key.private_bytes(*form))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, Any]:
        self.forms.append(form)
        accepted = {
            f"Basic {base64.b64encode(f'{self._id}:{secret}'.encode()).decode()}"
            for secret in self.secrets
        }
        if authorization not in accepted or form["grant_type"] != ["client_credentials"]:
            # a server that repeats what it was sent
            return 401, {"error": "invalid_client", "error_description": authorization}
        return 200, {"access_token": self.token(), "token_type": "Bearer", "expires_in": self.life}
