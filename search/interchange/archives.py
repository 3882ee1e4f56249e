"""Reads small files out of an uploaded zip or a folder, into memory only. Trusts no name, no size, no header."""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath

MAX_ZIP_BYTES = 32 << 20
MAX_BYTES = 64 << 20  # unpacked, all files together
MAX_FILE_BYTES = 4 << 20
MAX_FILES = 100_000
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # others may need much memory to unpack
_ENCRYPTED = 0x1


class ArchiveRejected(ValueError):
    """The archive or folder is not taken. The message says why and what to do."""


def files_in_zip(data: bytes) -> dict[str, bytes]:
    """Path -> content of every plain file. Nothing is written to disk. Raises ArchiveRejected."""
    if len(data) > MAX_ZIP_BYTES:
        raise ArchiveRejected(f"The archive is larger than {MAX_ZIP_BYTES >> 20} MiB. Import the folder by command.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _check(entries)
            return _contents(archive, entries)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise ArchiveRejected(f"The archive is damaged ({error}). Pack it again.") from error


def files_in_folder(folder: Path) -> dict[str, bytes]:
    """Name -> content of the plain files in `folder`, subfolders left out. Raises ArchiveRejected."""
    found: dict[str, bytes] = {}
    room = MAX_BYTES
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_file() or path.suffix not in {".py", ".json", ".txt"}:
            continue
        if path.stat().st_size > min(room, MAX_FILE_BYTES):
            raise ArchiveRejected(_too_large(path.name, room))
        found[path.name] = path.read_bytes()
        room -= len(found[path.name])
    return found


def _check(entries: list[zipfile.ZipInfo]) -> None:
    """Refuse the whole archive when any entry is not a plain file with a plain name, or says it is too large."""
    if len(entries) > MAX_FILES:
        raise ArchiveRejected(f"The archive holds {len(entries)} files; the limit is {MAX_FILES}.")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not _plain(name) or name in names:
            raise ArchiveRejected(f"The archive holds {name!r}, a name that is not taken. Pack the run folder alone.")
        names.add(name)
        mode = entry.external_attr >> 16
        if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise ArchiveRejected(f"{name} is a link or a device, not a plain file. Pack the files themselves.")
        if entry.flag_bits & _ENCRYPTED:
            raise ArchiveRejected(f"{name} is encrypted. Pack the folder without a password.")
        if entry.compress_type not in _METHODS:
            raise ArchiveRejected(f"{name} is packed by a method that is not taken. Use plain zip (deflate).")
    if sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise ArchiveRejected(f"The archive unpacks to more than {MAX_BYTES >> 20} MiB.")


def _plain(name: str) -> bool:
    """Relative, without a way up, a drive, a backslash or control characters."""
    parts = PurePosixPath(name).parts
    return (
        bool(parts)
        and not name.startswith("/")
        and ".." not in parts
        and not any(sign in name for sign in "\\:")
        and name.isprintable()
    )


def _contents(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo]) -> dict[str, bytes]:
    """Read up to the limits, whatever the headers said."""
    found: dict[str, bytes] = {}
    room = MAX_BYTES
    for entry in entries:
        limit = min(room, MAX_FILE_BYTES)
        with archive.open(entry) as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise ArchiveRejected(_too_large(entry.filename, room))
        found[entry.filename] = content
        room -= len(content)
    return found


def _too_large(name: str, room: int) -> str:
    if room < MAX_FILE_BYTES:
        return f"The files unpack to more than {MAX_BYTES >> 20} MiB together."
    return f"{name} is larger than {MAX_FILE_BYTES >> 20} MiB."
