"""The stand-alone re-check, run as a person would: unzip, `python repro.py`, without the product on the path."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

from search.interchange.exports import kernel_file, proof_zip
from tests.search.export_rows import KERNEL, REFERENCE, make_node

pytestmark = [pytest.mark.django_db, pytest.mark.bench]

MATMUL = """import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(32, 16)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.rand(8, 32)]


def get_init_inputs():
    return []
"""
HALF = MATMUL.replace("Model(", "ModelNew(").replace(
    "return self.linear(x)",
    "return torch.nn.functional.linear(x.half().float(), self.linear.weight.half().float(), self.linear.bias)",
)
TUNED = KERNEL.replace(
    "@triton.jit",
    "@triton.autotune([triton.Config({'BLOCK': 4096}), triton.Config({'BLOCK': 8192})], key=['width'])\n@triton.jit",
).replace(", BLOCK=triton.next_power_of_2(width)", "")


def run_in(folder: Path, script: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, script, *options],
        cwd=folder,
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def unzip(node, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(proof_zip(node)[1])) as archive:
        archive.extractall(folder)


def repro(folder: Path, **rows) -> subprocess.CompletedProcess[str]:
    unzip(make_node(**rows), folder)
    return run_in(folder, "repro.py", "--device", "cpu")


WRONG = {
    "no relu": (KERNEL.replace("tl.maximum(value, 0.0)", "value"), "larger than allowed"),
    "folded weight": (KERNEL.replace(" * factor", ""), "larger than allowed"),  # right until the parameters change
    "dtype": (KERNEL.replace("return y", "return y.double()"), "torch.float64, not"),
    "nesting": (KERNEL.replace("return y", "return (y,)"), "nested"),
    "input changed": (KERNEL.replace("return y", "x.zero_()\n        return y"), "changes its inputs"),
    "no class": (KERNEL.replace("class ModelNew", "class Other"), "ModelNew"),
    "import": ("raise OSError('no')\n", "cannot be imported"),
}

COMPARES_NOTHING = {
    "nothing returned": "[]",
    "empty output": "x[:0]",
    "an undecided reference": "(1e9 + self.linear(x)) - 1e9",  # off by more than it varies, in its own type
    "not finite": "self.linear(x) / 0",
}

# Runs several unzipped archives in one process: importing torch for each takes longer than the check.
DRIVER = """import importlib.util, runpy, sys
for folder in sys.argv[1:]:
    sys.argv = ["repro.py", "--device", "cuda" if folder.endswith("cuda") else "cpu"]
    print("== " + folder.rsplit("/", 1)[-1])
    try:
        runpy.run_path(folder + "/repro.py", run_name="__main__")
    except SystemExit as end:
        print("status", end.code)
"""


def test_a_right_kernel_passes_on_a_machine_without_a_gpu(tmp_path):
    done = repro(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "correctness: PASSED" in done.stdout
    assert "case: interpreter" in done.stdout
    assert "Timing needs a CUDA GPU" in done.stdout


def test_each_kind_of_kernel_gets_its_answer(tmp_path):
    cases = {name: (1, word, source, REFERENCE) for name, (source, word) in WRONG.items()}
    cases["half precision"] = (1, "FAILED", HALF, MATMUL)
    cases["autotuned"] = (0, "PASSED", TUNED, REFERENCE)
    cases["the reference itself"] = (0, "PASSED", MATMUL.replace("Model(", "ModelNew("), MATMUL)
    cases["made on a GPU"] = (
        2,
        "NOT CHECKED",
        KERNEL.replace("empty_like(x)", "empty_like(x, device='cuda')"),
        REFERENCE,
    )
    for name, forward in COMPARES_NOTHING.items():
        source = MATMUL.replace("self.linear(x)", forward)
        cases[name] = (2, "NOT CHECKED: No value was compared", source.replace("Model(", "ModelNew("), source)
    if not torch.cuda.is_available():
        cases["cuda"] = (2, "There is no CUDA device here", KERNEL, REFERENCE)
    node = make_node()
    for name, (_, _, source, reference) in cases.items():
        node.source, node.run.problem.source = source, reference
        unzip(node, tmp_path / name)
    (tmp_path / "driver.py").write_text(DRIVER)
    done = run_in(tmp_path, "driver.py", *(str(tmp_path / name) for name in cases))
    answers = dict(part.split("\n", 1) for part in done.stdout.split("== ")[1:])
    for name, (status, word, _, _) in cases.items():
        assert f"status {status}" in answers[name], f"{name}: {answers[name]}"
        assert word in answers[name], f"{name}: {answers[name]}"


def test_a_downloaded_kernel_compares_itself_with_the_reference_beside_it(tmp_path):
    name, data = kernel_file(make_node())
    (tmp_path / name).write_bytes(data)
    (tmp_path / "reference.py").write_text(REFERENCE)
    beside = run_in(tmp_path, name)
    (tmp_path / name).write_bytes(data.replace(b"tl.maximum(value, 0.0)", b"(value - 0.5)"))
    wrong = run_in(tmp_path, name, TRITON_INTERPRET="1")
    assert (beside.returncode, wrong.returncode) == (0, 1), beside.stdout + beside.stderr
    assert "right" in beside.stdout


@pytest.mark.parametrize(
    ("source", "reference", "said"),
    [
        (KERNEL, None, "Put the problem's module beside this file"),
        (KERNEL.replace("class ModelNew", "class Other"), REFERENCE, "defines no ModelNew"),
        (KERNEL.replace("empty_like(x)", "empty_like(x, device='cuda')"), REFERENCE, "check it on a GPU"),
        (MATMUL.replace("Model(", "ModelNew("), MATMUL.replace("self.linear(x)", "x / 0"), "holds no finite values"),
        (MATMUL.replace("Model(", "ModelNew("), MATMUL.replace("self.linear(x)", "[]"), "holds no finite values"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="says what is missing without a GPU")
def test_a_downloaded_kernel_that_compared_nothing_says_so_and_fails(tmp_path, source, reference, said):
    node = make_node()
    node.source = source
    name, data = kernel_file(node)
    (tmp_path / name).write_bytes(data)
    if reference is not None:
        (tmp_path / "reference.py").write_text(reference)
    done = run_in(tmp_path, name, TRITON_INTERPRET="1")
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stdout.startswith("NOT CHECKED: ") and said in done.stdout and "Traceback" not in done.stderr
