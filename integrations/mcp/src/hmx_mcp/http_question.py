"""One question to a service over HTTP: as `hmx-mcp`, the pipeline's commands and its probes ask it.

Raises SilentServiceError. Imports no HTTP before it asks, so that a command starts at once.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

TIMEOUT_S: Final = 30.0
Answer = tuple[int, bytes]


class SilentServiceError(ConnectionError):
    """The message says where the service does not answer, or what to set. It quotes no key."""


class UntrustedServiceError(SilentServiceError):
    """It answers, but with a certificate that this machine does not trust."""


def ask_over_http(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
    timeout_s: float = TIMEOUT_S,
    most_bytes: int | None = None,
) -> Answer:
    """Returns the status and the answer, up to `most_bytes` of it."""
    import http.client

    try:
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ValueError
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname, address.port, timeout=timeout_s)
        try:
            connection.request(method, address.path.rstrip("/") + path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read(most_bytes)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        where = f"{address.scheme}://{address.netloc.rpartition('@')[2]}{address.path}"
        if why := getattr(error, "verify_message", ""):  # of ssl.SSLCertVerificationError
            raise UntrustedServiceError(
                f"the certificate of the memory service at {where} is not trusted ({why}): check the host name, or set"
                " SSL_CERT_FILE to the file of the CA that signed it, as PEM"
            ) from None
        raise SilentServiceError(f"the memory service at {where} does not answer ({error})") from None
    except ValueError:  # its text may quote the key
        raise SilentServiceError(
            "HMX_SERVICE_URL, HMX_API_KEY or HMX_TENANT is not well formed: set them to http://host:port, a key, a name"
        ) from None
