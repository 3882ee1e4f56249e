"""repro.py goes by the numerics of verdict.json: the same switches, the same errors allowed as the judge."""

from __future__ import annotations

import json
import runpy
import shutil
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from judge.bench.judging.precision import rounded
from judge.values import SWITCHES, Precision
from search.interchange.exports import FOLDER


@pytest.fixture(autouse=True)
def _switches_as_they_were():
    yield
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def script(folder, **policy: Any) -> dict[str, Any]:
    """Its functions, beside a verdict with this policy."""
    shutil.copy(FOLDER / "repro.py.txt", folder / "repro.py")
    (folder / "verdict.json").write_text(json.dumps({"problem": {"policy": policy}}))
    return runpy.run_path(str(folder / "repro.py"))


def pair(functions: dict[str, Any], kind: str | None, *, convolves: bool):
    """A product or a convolution, and a kernel that rounds its operands to `kind`."""

    def module(near):
        class Model(torch.nn.Module):
            def forward(self, x, w):
                return F.conv1d(near(x)[:, None], near(w)[:, None]) if convolves else near(x) @ near(w)

        return Model

    given = lambda: [torch.randn(16, 64), torch.randn(*((8, 9) if convolves else (64, 8)))]  # noqa: E731
    reference = SimpleNamespace(Model=module(lambda t: t), get_inputs=given, get_init_inputs=list)
    kernel = SimpleNamespace(ModelNew=module(lambda t: rounded(t, kind) if kind else t))
    return functions["Pair"](reference, kernel, 3, "cpu")


@pytest.mark.parametrize(
    ("kind", "convolves", "passes"),
    [
        ("tf32", True, {"shipped", "tf32", "half"}),
        ("tf32", False, {"tf32", "half"}),
        ("bfloat16", True, {"half"}),
        ("bfloat16", False, {"half"}),
    ],
)
@torch.no_grad()
def test_it_allows_what_the_judge_allows(tmp_path, kind, convolves, passes):
    found = set()
    for precision in Precision:
        functions = script(tmp_path, precision=precision.value)
        try:
            functions["check_rounds"](pair(functions, kind, convolves=convolves), 3)
            found.add(precision.value)
        except functions["Wrong"]:
            pass
    assert found == passes


@pytest.mark.parametrize("precision", Precision)
def test_it_sets_the_same_switches(tmp_path, precision):
    functions = script(tmp_path, precision=precision.value)
    functions["switch"](functions["POLICY"]["precision"])
    wanted = SWITCHES[precision]
    found = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    assert found == (wanted.matmul, wanted.cudnn) == functions["TF32"][precision.value]
    for name in ("mm", "convolution", "_cudnn_rnn", "_scaled_dot_product_flash_attention", "relu"):
        assert functions["coarse"](name) == bool(wanted.coarse({name})), name


@torch.no_grad()
def test_type_and_mode_of_the_policy_hold_for_both_sides(tmp_path):
    functions = script(tmp_path, precision="strict", dtype="bfloat16", mode="eval")
    both = pair(functions, None, convolves=False)
    assert both.inputs(1)[0].dtype is torch.bfloat16 and not both.model.training and not both.kernel.training
    (tmp_path / "verdict.json").unlink()
    assert runpy.run_path(str(tmp_path / "repro.py"))["POLICY"]["precision"] == "strict"
