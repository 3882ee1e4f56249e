"""Uploaded archives: what is hostile is refused with a sentence, and nothing is written."""

from __future__ import annotations

import io
import stat
import zipfile

import pytest

from adaexplore_site.core.audit import ActionRefused
from search.interchange import run_folder
from search.interchange.imports import search_import
from search.interchange.run_folder import ArchiveRejected, files_in_folder, files_in_zip
from search.records.models import Run


def zipped(*entries: tuple[str, bytes], mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def test_plain_files_come_out_by_their_paths():
    assert files_in_zip(zipped(("a/x.py", b"1"), ("y.txt", b""))) == {"a/x.py": b"1", "y.txt": b""}


@pytest.mark.parametrize("name", ["../x.py", "/etc/passwd", "a/../../x", "..\\x", "C:x.py", "a\nb.py", "a\u202eb"])
def test_names_that_lead_elsewhere_are_refused(name):
    with pytest.raises(ArchiveRejected, match="a name that is not taken"):
        files_in_zip(zipped((name, b"1")))


def test_links_and_devices_are_refused():
    for kind in (stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO):
        with pytest.raises(ArchiveRejected, match="not a plain file"):
            files_in_zip(zipped(("x.py", b"/etc/passwd"), mode=kind | 0o777))


def test_a_bomb_is_refused_by_its_header_and_by_its_content(monkeypatch):
    bomb = zipped(*[(f"{number}.txt", bytes(1 << 20)) for number in range(70)])
    assert len(bomb) < 200_000
    with pytest.raises(ArchiveRejected, match="unpacks to more than 64 MiB"):
        files_in_zip(bomb)
    lying = bytearray(zipped(("x.txt", bytes(5 << 20))))
    place = lying.rindex(b"PK\x01\x02") + 24  # the size in the central directory
    lying[place : place + 4] = (100).to_bytes(4, "little")
    with pytest.raises(ArchiveRejected, match=r"damaged|larger than"):
        files_in_zip(bytes(lying))
    monkeypatch.setattr(run_folder, "MAX_BYTES", 10 << 20)
    with pytest.raises(ArchiveRejected, match="larger than 4 MiB"):
        files_in_zip(zipped(("x.txt", bytes(5 << 20))))


def test_many_files_other_methods_and_passwords_are_refused(monkeypatch):
    with pytest.raises(ArchiveRejected, match="method that is not taken"):
        files_in_zip(zipped(("x.txt", b"1"), method=zipfile.ZIP_LZMA))
    locked = bytearray(zipped(("x.txt", b"1")))
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ArchiveRejected, match="encrypted"):
        files_in_zip(bytes(locked))
    monkeypatch.setattr(run_folder, "MAX_FILES", 2)
    with pytest.raises(ArchiveRejected, match="holds 3 files"):
        files_in_zip(zipped(("a", b""), ("b", b""), ("c", b"")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused():
    with pytest.raises(ArchiveRejected, match="not taken"):
        files_in_zip(zipped(("x.py", b"1"), ("x.py", b"2")))


@pytest.mark.parametrize("data", [b"PK\x03\x04", b"PK" + bytes(200), zipped(("x", b"1" * 999))[:-9]])
def test_damage_is_told(data):
    with pytest.raises(ArchiveRejected, match="damaged"):
        files_in_zip(data)


def test_links_in_a_folder_are_passed_by(tmp_path):
    (tmp_path / "secret").write_text("s")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "step_1.py").symlink_to(tmp_path / "secret")
    (tmp_path / "run" / "step_2.py").write_text("x = 1")
    assert files_in_folder(tmp_path / "run") == {"step_2.py": b"x = 1"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([("a.py", b"")], "no step_1_log.json"),
        ([("a/step_0_log.json", b"{}"), ("b/step_0_log.json", b"{}")], "2 run folders"),
        ([("step_0_log.json", b"{}")], "reference_src.py, the PyTorch module of the search, is missing"),
        ([("step_0_log.json", b"{"), ("reference_src.py", b"x")], "step_0_log.json is not JSON"),
        ([("step_0_log.json", b"[]"), ("reference_src.py", b"x")], "must hold one JSON object"),
        ([("step_0_log.json", b'{"score": 3}'), ("reference_src.py", b"x")], "score must list"),
        ([("step_0_log.json", b"{}"), ("reference_src.py", b"x")], "from 1 to 20000 steps"),
    ],
)
def test_a_zip_that_is_no_run_folder_says_what_is_missing_and_writes_nothing(entries, said):
    with pytest.raises(ActionRefused, match=said):
        search_import(data=zipped(*entries), name="x.zip")
    assert not Run.objects.exists()
