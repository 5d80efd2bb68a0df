"""An OpenID Connect issuer: its keys, its tokens, and the pages that it serves."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hmx_pipeline.settings import Settings

AUDIENCE, ISSUER = "hmx-service", "https://login.acme.example/realms/acme"
MAKERS: dict[str, Any] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


class Issuer:
    def __init__(self, *algorithms: str, issuer: str = ISSUER) -> None:
        self.issuer = issuer
        self.private: dict[str, tuple[str, Any]] = {}
        self.asked: list[str] = []
        self.pages: dict[str, Any] = {}
        """Path → body or what makes it, status, or seconds to wait, instead of what is usual there."""
        for algorithm in algorithms or ("ES256",):
            self.rotate(algorithm, algorithm)

    def rotate(self, kid: str, algorithm: str = "ES256") -> None:
        self.private[kid] = algorithm, MAKERS[algorithm]()

    def jwks(self) -> dict[str, Any]:
        return {"keys": [public(kid, *named) for kid, named in self.private.items()]}

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Usual ones; None takes one away."""
        now = int(time.time())
        said = {"iss": self.issuer, "aud": AUDIENCE, "iat": now, "exp": now + 300, "tenant": "acme", "sub": "ann",
                "scope": "openid read write"} | changed  # fmt: skip
        return {name: value for name, value in said.items() if value is not None}

    def token(self, kid: str = "ES256", headers: dict[str, Any] | None = None, **changed: Any) -> str:
        algorithm, key = self.private[kid]
        return jwt.encode(self.claims(**changed), key, algorithm, {"kid": kid, **(headers or {})})

    def settings(self, file: Path | None = None, **more: Any) -> Settings:
        if file is not None:
            file.write_text(json.dumps(self.jwks()))
            more["jwt_jwks"] = str(file)
        return Settings(jwt_issuer=self.issuer, jwt_audience=AUDIENCE, **more)

    def page(self, path: str) -> Any:
        usual = {
            "/.well-known/openid-configuration": {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks"},
            "/jwks": self.jwks(),
            "/elsewhere": self.jwks(),
        }
        page = self.pages.get(path, usual.get(path))
        return page(self) if callable(page) else page


def public(kid: str, algorithm: str, key: Any) -> dict[str, Any]:
    told = jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key(), as_dict=True)
    return {**told, "kid": kid, "use": "sig", "key_ops": ["verify"]}


@contextmanager
def serving_keys(*algorithms: str) -> Iterator[Issuer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            page = issuer.page(self.path)
            if isinstance(page, float):
                time.sleep(page)
                page = issuer.jwks()
            if isinstance(page, int):
                self.send_response(page)
                self.send_header("Location", f"{issuer.issuer}/elsewhere")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page if isinstance(page, bytes) else json.dumps(page).encode())

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(*algorithms, issuer=f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate(folder: Path, days: float) -> tuple[str, str]:
    """A certificate that signs itself and ends in so many days, and its key."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    end = datetime.now(UTC) + timedelta(days)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, end - timedelta(100), end).sign(key, SHA256())
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(Encoding.PEM))
    files[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return str(files[0]), str(files[1])
