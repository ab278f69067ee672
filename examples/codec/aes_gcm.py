"""A codec that encrypts payloads and errors with AES-GCM. Its keys can be changed while jobs wait."""

import base64
import os
from collections.abc import Mapping

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE = 12


class AesGcm:
    """Encrypts with one key, and decrypts with each key that it knows.

    Args:
        keys: Each key by its id: 16, 24 or 32 random bytes.
        key_id: The id of the key that encrypts.
    """

    def __init__(self, keys: Mapping[str, bytes], key_id: str) -> None:
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        if key_id not in self._ciphers:
            raise ValueError(f"there is no key {key_id!r}")
        self.key_id = key_id
        self.errors = True  # the traceback of a handler may show what it worked on

    def encode(self, task: str, data: bytes) -> bytes:
        """Encrypt a payload or an error of a job of the task."""
        nonce = os.urandom(NONCE)
        # The name of the task is not secret, but bytes of one task cannot be used for another one.
        return nonce + self._ciphers[self.key_id].encrypt(nonce, data, task.encode())

    def decode(self, task: str, data: bytes, key_id: str) -> bytes:
        """Decrypt it; raises KeyError for an unknown key, and InvalidTag for bytes that were changed."""
        return self._ciphers[key_id].decrypt(data[:NONCE], data[NONCE:], task.encode())


def codec_of(keys: str) -> AesGcm:
    """Read a codec from a text such as `2027=BASE64,2026=BASE64`; the first key encrypts."""
    named = dict(pair.strip().split("=", 1) for pair in keys.split(","))
    return AesGcm({key_id: base64.b64decode(key) for key_id, key in named.items()}, next(iter(named)))
