"""Importing a KernelBench-style folder: numeric order, every file's fate, never stopped by a bad one."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from judge.problems.models import Problem
from judge.problems.services import folder_import
from tests.judge.problems.test_problem_upload import text

pytestmark = pytest.mark.django_db


@pytest.fixture
def bench_folder(tmp_path: Path) -> Path:
    files = {
        "level1/2_Second_op.py": text(2),
        "level1/10_Tenth_op.py": text(10),
        "level1/1_First_op.py": text(1),
        "level2/1_Gemm_ReLU.py": text(21),
        "level2/3_broken.py": b"def broken(:\n",
        "level2/4_binary.py": b"\x7fELF\x00",
        "level1/__init__.py": b"",
        "__pycache__/x.py": text(99),
        "README.md": b"# no problem",
    }
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    return tmp_path


def run(path: Path) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("import_problems", str(path), stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_files_are_taken_in_numeric_order(bench_folder: Path) -> None:
    paths = [file.path for file in folder_import(path=bench_folder)]
    assert paths == [
        "level1/1_First_op.py",
        "level1/2_Second_op.py",
        "level1/10_Tenth_op.py",
        "level2/1_Gemm_ReLU.py",
        "level2/3_broken.py",
        "level2/4_binary.py",
    ]


def test_good_files_become_problems_with_title_and_level(bench_folder: Path) -> None:
    run(bench_folder)
    problem = Problem.objects.get(slug="1_gemm_relu")
    assert (problem.title, problem.level, problem.origin) == ("L2 1 Gemm ReLU", "level2", Problem.Origin.IMPORT)
    assert Problem.objects.count() == 4


def test_bad_files_are_reported_with_line_and_reason(bench_folder: Path) -> None:
    out, err = run(bench_folder)
    assert "4 created, 0 known, 2 refused" in out
    assert "3_broken.py: line 1:" in err and "4_binary.py: This is a binary file" in err


def test_a_second_import_knows_everything(bench_folder: Path) -> None:
    run(bench_folder)
    out, _ = run(bench_folder)
    assert "0 created, 4 known, 2 refused" in out and Problem.objects.count() == 4


def test_one_level_folder_and_one_file_work_alone(bench_folder: Path) -> None:
    assert next(file.slug for file in folder_import(path=bench_folder / "level2")) == "1_gemm_relu"
    (file,) = folder_import(path=bench_folder / "level1" / "2_Second_op.py")
    assert file.state == "created"
    assert set(Problem.objects.values_list("level", flat=True)) == {"level1", "level2"}


def test_a_file_that_cannot_be_read_is_one_refusal(bench_folder: Path) -> None:
    (bench_folder / "level1" / "3_gone.py").symlink_to(bench_folder / "nowhere")
    fates = {file.path: file for file in folder_import(path=bench_folder)}
    assert fates["level1/3_gone.py"].state == "refused" and "cannot be read" in fates["level1/3_gone.py"].reason
    assert fates["level2/1_Gemm_ReLU.py"].state == "created"


@pytest.mark.parametrize("content", [None, b"def broken(:\n"])
def test_nothing_readable_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    if content:
        (tmp_path / "1_x.py").write_bytes(content)
    with pytest.raises(CommandError, match="Nothing could be imported"):
        run(tmp_path)


def test_a_path_that_does_not_exist_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"does not exist.*Give a \.py file or a folder"):
        run(tmp_path / "nowhere")
