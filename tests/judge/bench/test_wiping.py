"""Whatever a child leaves in its private folder is removed, and nothing outside it is touched."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench.processes.children import wipe
from judge.values import Verdict
from tests.judge.bench_problems import SAME, candidate, judge

ROOT = Path(__file__).resolve().parents[3]
DEEP = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("d"); open("f", "w").close(); os.chdir("d")
"""


def deepened(folder: Path) -> Path:
    subprocess.run([sys.executable, "-c", DEEP, str(folder)], check=True, timeout=300)
    return folder


def test_folders_far_deeper_than_any_recursion_are_removed_with_few_descriptors(tmp_path) -> None:
    folder = tmp_path / "child"
    (folder / "beside").mkdir(parents=True)
    deepened(folder)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    assert wipe(folder) and not folder.exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == opened


def test_links_are_removed_and_never_followed(tmp_path) -> None:
    other, folder = tmp_path / "other", tmp_path / "child"
    other.mkdir()
    other.chmod(0o755)
    (other / "kept").write_text("x")
    (folder / "sealed" / "below").mkdir(parents=True)
    for name in ("link", "below/link"):
        (folder / "sealed" / name).symlink_to(other)
    (folder / "sealed" / "kept").hardlink_to(other / "kept")
    (folder / "sealed").chmod(0)
    assert wipe(folder)
    assert (other / "kept").read_text() == "x" and other.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_became_a_link_is_left_alone(tmp_path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "kept").touch()
    (tmp_path / "child").symlink_to(other)
    assert not wipe(tmp_path / "child")
    assert (other / "kept").exists()


def test_pipes_sockets_and_strange_names_are_files_too(tmp_path) -> None:
    folder = tmp_path / "child"
    (folder / "a").mkdir(parents=True)
    os.mkfifo(folder / "a" / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "s"))
    for name in (b"new\nline", b"\xff\xfe", b"-rf", b" ", b"." + b"0" * 200):
        Path(os.fsdecode(bytes(folder) + b"/a/" + name)).touch()
        Path(os.fsdecode(bytes(folder) + b"/" + name)).mkdir()
    assert wipe(folder)


def test_what_is_gone_already_is_no_fault(tmp_path) -> None:
    assert wipe(tmp_path / "never")


ORDINARY = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from judge.bench.processes.children import wipe
os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
folder = Path(sys.argv[1], "child")
(folder / "a" / "b" / "c").mkdir(parents=True)
(folder / "a" / "b" / "file").touch()
for path in (folder / "a" / "b" / "c", folder / "a" / "b", folder / "a", folder):
    path.chmod(0)
sys.exit(0 if wipe(folder) else 1)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become an ordinary user")
def test_an_ordinary_user_removes_folders_without_any_mode(tmp_path) -> None:
    reachable = Path("/tmp") / f"adaexplore-wiping-{os.getpid()}"
    reachable.mkdir()
    reachable.chmod(0o777)
    try:
        code = "import sys; sys.dont_write_bytecode = True\n" + ORDINARY
        done = subprocess.run(
            [sys.executable, "-c", code, str(reachable), str(ROOT)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not list(reachable.iterdir())
    finally:
        wipe(reachable)


@pytest.mark.bench
def test_a_candidate_that_digs_deep_neither_breaks_the_judge_nor_stays(cpu_bench) -> None:
    dig = "for _ in range(1500): os.mkdir('d'); os.chdir('d')"
    assert judge(cpu_bench, candidate("return self.right(x)", init=dig)).verdict is Verdict.PASS
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS
    assert not [path for path in cpu_bench._root.rglob("d") if path.is_dir()]
