"""The key that a device signs its outcomes with: made once where the rows are, carried to the device by a person."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path

_HEX = re.compile(r"[0-9a-f]{64}")


class BadKey(Exception):
    """A key file that cannot be used; the text says what to do."""


@dataclass(frozen=True)
class DeviceKey:
    """Key of the device enrolled as `device`; `secret` is 32 bytes in hexadecimal."""

    device: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.device or not _HEX.fullmatch(self.secret):
            raise BadKey("a key has a device's name and 64 hexadecimal digits")

    @property
    def id(self) -> str:
        """Tells keys apart without telling the key."""
        return hashlib.sha256(b"key id\0" + bytes.fromhex(self.secret)).hexdigest()[:12]


def make_key(path: Path, device: str) -> DeviceKey:
    """Write a new key for `device`, readable by this account only. Raises BadKey when the file exists."""
    key = DeviceKey(device, secrets.token_hex(32))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError as error:
        raise BadKey(f"{path} already exists") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(json.dumps({"device": key.device, "secret": key.secret}) + "\n")
    return key


def read_key(path: Path) -> DeviceKey:
    """Raises BadKey for a file that is missing, malformed, or open to other accounts."""
    try:
        if path.stat().st_mode & 0o077:
            raise BadKey(f"the key {path} is readable by others: run chmod 600 {path}")
        content = json.loads(path.read_text())
        return DeviceKey(str(content["device"]), str(content["secret"]))
    except OSError as error:
        raise BadKey(f"the key {path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadKey(f"{path} is not a key file: copy the one written by judge_enroll_device") from error
