"""Signatures on the one message that decides an evaluation. Standard library only."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

from judge.values.rebuilding import finite


def canonical(body: Any) -> bytes:
    """The one text that is signed. Raises ValueError for NaN and infinities, which are no JSON."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def sign(body: Any, *, key: str, nonce: str) -> str:
    """HMAC-SHA256 over nonce and canonical JSON. `key` is hexadecimal."""
    return hmac.new(bytes.fromhex(key), nonce.encode() + b"\0" + canonical(body), hashlib.sha256).hexdigest()


def signed(report: dict[str, Any], payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The message with a child's verdict, signed under the key and nonce of its assignment. NaN and infinities become
    null."""
    body = json.loads(json.dumps(finite(report), allow_nan=False))  # as it will arrive
    return {"verdict": body, "mac": sign(body, key=payload["key"], nonce=payload["nonce"]), **more}


def verified(body: Any, mac: str, *, key: str, nonce: str) -> bool:
    """Whether the body is signed so; a hostile one may have any form."""
    try:
        return hmac.compare_digest(sign(body, key=key, nonce=nonce), mac)
    except (TypeError, ValueError, RecursionError):  # no signature could be like this
        return False
