"""The lock files: what set-up installs is pinned, complete and checked by hash."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent.parent
LOCKS = sorted(ROOT.glob("requirements*.lock"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = "locked-1.0-py3-none-any.whl"


def entries(lock: Path) -> list[tuple[Requirement, list[str]]]:
    """(requirement, its sha256 hashes) of each entry of a lock file."""
    text = re.sub(r"^#.*\n", "", lock.read_text(), flags=re.M).replace("\\\n", " ")
    rows = [line.split(" --hash=sha256:") for line in re.sub(" +", " ", text).splitlines()]
    return [(Requirement(first), [value.strip() for value in rest]) for first, *rest in rows]


def pins(name: str) -> dict[str, set[str]]:
    """Versions by package."""
    found: dict[str, set[str]] = {}
    for requirement, _ in entries(ROOT / name):
        found.setdefault(requirement.name, set()).add(str(requirement.specifier).removeprefix("=="))
    return found


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_entry_is_pinned_with_hashes_and_names_no_index(lock):
    rows = entries(lock)
    assert rows
    for requirement, hashes in rows:
        assert re.fullmatch(r"==[^*,]+", str(requirement.specifier)), requirement
        assert hashes and all(re.fullmatch("[0-9a-f]{64}", value) for value in hashes), requirement
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", lock.read_text())


@pytest.mark.parametrize(
    ("asked", "locks"),
    [
        (PROJECT["project"]["dependencies"], ["requirements.lock", "requirements-cuda.lock"]),
        (PROJECT["dependency-groups"]["dev"], ["requirements-dev.lock"]),
        (PROJECT["dependency-groups"]["npm"], ["requirements-npm.lock"]),
    ],
)
def test_the_locks_hold_what_the_project_asks_for(asked, locks):
    found = {name: versions for lock in locks for name, versions in pins(lock).items()}
    for one in map(Requirement, asked):
        versions = found[canonicalize_name(one.name)]
        assert all(one.specifier.contains(version) for version in versions), one


def test_both_builds_of_torch_have_one_version():
    (cuda,), (cpu,) = pins("requirements-cuda.lock")["torch"], pins("requirements-cpu.lock")["torch"]
    assert cpu == f"{cuda}+cpu"


def test_the_locks_agree_on_what_they_share():
    product = pins("requirements.lock")
    assert {name: versions for name, versions in pins("requirements-dev.lock").items() if name in product} == {
        name: versions for name, versions in product.items() if name in pins("requirements-dev.lock")
    }


def installed(folder: Path, lock_text: str) -> subprocess.CompletedProcess[str]:
    """Run the command with which `make` installs a lock file on files of `folder` alone."""
    printed = subprocess.run(
        ["make", "--no-print-directory", "--eval", "show-install: ; @echo $(INSTALL)", "show-install", "PIP=pip"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (folder / "made.lock").write_text(lock_text)
    options = printed.stdout.removeprefix("pip ").split()
    command = [sys.executable, "-m", "pip", *options, "made.lock", "--no-index", "--find-links", "."]
    return subprocess.run([*command, "--target", "into"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package of one module."""
    info = "locked-1.0.dist-info"
    with zipfile.ZipFile(tmp_path / WHEEL, "w") as made:
        made.writestr("locked.py", "")
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: locked\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", "")
    return tmp_path / WHEEL


def test_set_up_installs_what_was_locked(wheel):
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    made = installed(wheel.parent, f"locked==1.0 --hash=sha256:{right}\n")
    assert made.returncode == 0, made.stderr
    assert (wheel.parent / "into" / "locked.py").exists()


@pytest.mark.parametrize(
    ("line", "why"),
    [(f"locked==1.0 --hash=sha256:{'0' * 64}", "DO NOT MATCH THE HASHES"), ("locked==1.0", "HASHES ARE REQUIRED")],
)
def test_set_up_refuses_another_file_and_an_entry_without_a_hash(wheel, line, why):
    made = installed(wheel.parent, f"{line}\n")
    assert made.returncode != 0 and why in " ".join(made.stderr.upper().split())
    assert not (wheel.parent / "into" / "locked.py").exists()
