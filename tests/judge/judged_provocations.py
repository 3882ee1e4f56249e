"""Modules that the whole judge judges, each with the known error that its verdict is; and exact texts."""

from __future__ import annotations

PROBLEM = """import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(64))

    def forward(self, x):
        return torch.tanh(x @ x.t() / 8) * self.w

def get_inputs():
    return [torch.randn(64, 64)]

def get_init_inputs():
    return []
"""
WIDE = PROBLEM.replace("torch.randn(64, 64)", "torch.randn(64, 64, dtype=torch.float64)").replace(
    "torch.ones(64)", "torch.ones(64, dtype=torch.float64)"
)
COUNTING = PROBLEM.replace(
    "torch.nn.Parameter(torch.ones(64))",
    "torch.nn.Parameter(torch.ones(64)); self.register_buffer('n', torch.zeros(1))",
).replace("        return torch", "        self.n += 1\n        return torch")
W = "self.w = torch.nn.Parameter(torch.ones(64))"


def module(forward: str, init: str = W) -> str:
    """A ModelNew with this forward; `self.right(x)` is the right answer."""
    return (
        "import torch\n\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n\n    def right(self, x):\n"
        "        return torch.tanh(x @ x.t() / 8) * self.w\n\n"
        f"    def forward(self, x):\n        {forward}\n"
    )


# pattern -> (problem, candidate)
JUDGED = {
    "output-shape": (PROBLEM, module("return self.right(x).sum(-1)")),
    "output-dtype": (PROBLEM, module("return self.right(x).half()")),
    "output-nesting": (PROBLEM, module("return [self.right(x)]")),
    "input-changed": (PROBLEM, module("y = self.right(x); x += 1; return y")),
    "kept-output": (
        PROBLEM,
        module(
            "self.out = self.right(x) if self.out is None else self.out.copy_(self.right(x)); return self.out",
            f"{W}; self.out = None",
        ),
    ),
    "stale-parameters": (
        PROBLEM,
        module("return torch.tanh(x @ x.t() / 8) * self.v", f"{W}; self.v = torch.ones(64)"),
    ),
    "buffers-changed": (COUNTING, module("return self.right(x)", f"{W}; self.register_buffer('n', torch.zeros(1))")),
    "parameters-do-not-fit": (PROBLEM, module("return x", "self.q = torch.nn.Parameter(torch.ones(3))")),
    "precision-half": (PROBLEM, module("return self.right(x).half().float()")),
    "precision-tf32": (
        PROBLEM,
        module("x = (x.view(torch.int32) & -8192).view(torch.float32); return self.right(x)"),
    ),
    "precision-single": (
        WIDE,
        module(
            "return self.right(x.float()).double()", "self.w = torch.nn.Parameter(torch.ones(64, dtype=torch.float64))"
        ).replace("* self.w", "* self.w.float()"),
    ),
    "output-unwritten": (PROBLEM, module("y = torch.empty(64, 64); y[:60] = self.right(x)[:60]; return y")),
    "not-finite": (PROBLEM, module("return self.right(x) / 0 * 0")),
    "values-wrong": (PROBLEM, module("return self.right(x) * 1.5")),
    "unsteady": (
        PROBLEM,
        module("self.n += 1; return self.right(x) if self.n % 4 else self.right(x) * 2", f"{W}; self.n = 0"),
    ),
    "process-died": (PROBLEM, module("import os; os._exit(3)")),
    "memory-limit": (PROBLEM, module("return torch.empty(1 << 42)")),
    "constructor-arguments": (PROBLEM, module("return x").replace("__init__(self)", "__init__(self, a)")),
    "model-class-missing": (PROBLEM, "class Other: ...\n"),
    "source-syntax": (PROBLEM, "def f(:\n"),
    "markdown-fences": (PROBLEM, "```python\nimport torch\n```\n"),
    "torch-missing": (PROBLEM, module("return torch.nonsense(x)")),
    "import-missing": (PROBLEM, "import nowhere_at_all\n" + module("return x")),
    "model-attribute": (PROBLEM, module("return self.weight * x")),
    "matmul-shapes": (PROBLEM, module("return x @ x[:3]")),
    "sizes-mismatch": (PROBLEM, module("return x + x[:3, :5]")),
    "view-strides": (PROBLEM, module("return x.t().view(-1)")),
    "view-elements": (PROBLEM, module("return x.view(7, -1)")),
    "expand-sizes": (PROBLEM, module("return x.expand(3, 5)")),
    "dimension-range": (PROBLEM, module("return torch.softmax(x, dim=3)")),
    "operand-dtypes": (PROBLEM, module("return x @ x.half()")),
    "out-dtype": (PROBLEM, module("return torch.mm(x, x, out=torch.empty(64, 64, dtype=torch.float16))")),
    "out-gradient": (
        PROBLEM,
        module("with torch.enable_grad(): return torch.addmm(self.w, x, x, out=torch.empty(64, 64))"),
    ),
    "leaf-in-place": (PROBLEM, module("with torch.enable_grad(): self.w += 1")),
    "numpy-gradient": (PROBLEM, module("with torch.enable_grad(): return (self.w * 1).numpy()")),
    "layer-norm-shape": (PROBLEM, module("return torch.nn.functional.layer_norm(x, (63,))")),
    "conv-input": (PROBLEM, module("return torch.nn.functional.conv2d(x, x)")),
    "size-not-whole": (PROBLEM, module("return torch.empty((3, (4, 5)))")),
    "endless-recursion": (PROBLEM, module("return self.forward(x)")),
    "own-assertion": (PROBLEM, module("assert x.shape[0] == 3")),
    "index-range": (PROBLEM, module("return [x][3]")),
}

# pattern -> (problem, candidate), where the problem asks for the gradients of inputs and parameters.
WITH_GRADIENTS = {
    "no-gradient": (PROBLEM, module("return self.right(x).detach()")),
    "grad-accumulated": (PROBLEM, module("y = self.right(x); y.sum().backward(retain_graph=True); return y")),
}

# pattern -> (reason code, text): what no kernel can provoke here.
TEXTS = {
    # Only a GPU's driver says these.
    "two-devices": (
        "run.exception",
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
        "(when checking argument for argument mat2 in method wrapper_CUDA_mm)",
    ),
    "misaligned": ("run.exception", "RuntimeError: Triton Error [CUDA]: misaligned address"),
    "device-assert": (
        "run.exception",
        "torch.AcceleratorError: CUDA error: device-side assert triggered\nCUDA kernel errors might be asynchronously "
        "reported at some other API call, so the stacktrace below might be incorrect.",
    ),
    "registers": ("run.exception", "RuntimeError: Triton Error [CUDA]: too many resources requested for launch"),
    "toolchain-broken": (
        "run.exception",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ),
    # Only a Triton before 3.0 says this.
    "autotune-key": ("reported.load_failed", "builtins.ValueError: ValueError: 'rows' is not in list"),
    # Others' reports.
    "compiler-silent": ("reported.compile_failed", "triton.compiler.errors.CompilationError:                  ^"),
    # The harness, and verdicts that need an audit or another machine.
    "time-limit": ("run.timeout", "ModelNew.forward of the candidate gave no answer within 60 s"),
    "worker-lost": ("lost.attempts", "Given up after 3 attempts."),
    "problem-refused": ("problem.memory", "the reference: forward needs more memory than this device may use"),
    "time-doubtful": ("time.mismatch", "the times do not agree with the judge's own clock"),
    "tampered": ("tamper.harness", "the candidate replaced parts of the harness that runs it"),
    "library-instead": ("library.share", "torch did the work"),
    "nothing-proposed": (
        "proposal.exhausted",
        "The built-in proposer has nothing new to try: every variant was tried.",
    ),
    "nothing-recorded": ("proposal.not_recorded", "The recording has no further kernel."),
}

# pattern -> (reply, whether it is a step that patches): read by the parser of replies.
REPLIES = {
    "reply-without-kernel": ("I cannot do that.", False),
    "patch-does-not-apply": ("PATCH 1: no\n<<<<<<< OLD\nnowhere\n=======\nx\n>>>>>>> NEW\n", True),
    "kernel-unchanged": ("```python\nclass ModelNew: ...\n```", True),
}
