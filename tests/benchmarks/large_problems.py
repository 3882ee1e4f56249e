"""Problems of every size class, up to 10 GB a tensor, made from a table: a forward and how large its tensors are."""

from __future__ import annotations

from dataclasses import dataclass

GB = 10**9


@dataclass(frozen=True)
class Large:
    """One problem. `inputs` and `init` are Python, in which `N` elements of fp32 take `size_gb`."""

    name: str
    group: str
    size_gb: float  # of the largest input, or output, with four bytes an element
    forward: str  # the lines of forward(self, *x), without `return` the expression alone
    inputs: str
    init: str = ""

    @property
    def source(self) -> str:
        """The problem's text."""
        lines = self.forward if "return" in self.forward else f"return {self.forward}"
        body = "\n".join(f"        {line}" for line in lines.splitlines())
        init = "\n".join(f"        {line}" for line in self.init.splitlines())
        return (
            "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n"
            f"N = {int(self.size_gb * GB / 4)}\n\n\n"
            "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            f"{init}\n\n    def forward(self, *x):\n{body}\n\n\n"
            f"def get_inputs():\n    return [{self.inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
        )

    @property
    def candidate(self) -> str:
        """The same model, whose floating output of the most elements a kernel of its own copies in place."""
        own = self.source.replace("class Model(", "class Known(").replace("import torch\n", "", 1)
        return f"import torch\nimport triton\nimport triton.language as tl\n{own}{_COPIES}"


_COPIES = """

@triton.jit
def copy_kernel(source, target, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + at, tl.load(source + at, mask=at < count), mask=at < count)


class ModelNew(Known):
    def forward(self, *x):
        found = super().forward(*x)
        largest = max(found if isinstance(found, tuple) else (found,), key=torch.numel)
        if largest.is_contiguous():
            copy_kernel[(triton.cdiv(largest.numel(), 4096),)](largest, largest, largest.numel(), BLOCK=4096)
        return found
"""

VECTOR, SQUARE = "torch.randn(N)", "torch.randn(N // 4096, 4096)"
PAIR = "torch.randn(N // 4096, 4096), torch.randn(N // 4096, 4096)"
IMAGE, VOLUME = "torch.randn(N // (64 * 128 * 128), 64, 128, 128)", "torch.randn(N // (32 * 64 ** 3), 32, 64, 64, 64)"
SWISH = "v = x[0] * 0.5 + 1.0\nreturn v * torch.sigmoid(v)"
LINEAR = "self.w = nn.Linear(4096, 4096)"
CONV2 = "self.c = nn.Conv2d(64, 64, 3, padding=1)"
CONV3 = "self.c = nn.Conv3d(32, 32, 3, padding=1)"
TURNED3 = "self.c = nn.ConvTranspose3d(32, 16, 3, stride=2, padding=1, output_padding=1)"
SMALL_VOLUME = "torch.randn(N // (32 * 16 ** 3 * 4), 32, 16, 16, 16)"
HEADS = ", ".join(["torch.randn(N // (4096 * 64), 4096, 64)"] * 3)

# group, forward, inputs, constructor, sizes in GB where an element takes four bytes
_TABLE: tuple[tuple[str, str, str, str, str, tuple[float, ...]], ...] = (
    ("swish", "element-wise", SWISH, VECTOR, "", (10, 8, 4, 1, 0.1)),
    ("gelu", "element-wise", "F.gelu(x[0])", SQUARE, "", (10, 6)),
    ("add", "element-wise", "x[0] + 2 * x[1]", PAIR, "", (8, 4)),
    ("in-place", "element-wise", "x[0].mul_(0.5)\nreturn x[0] + 1", SQUARE, "", (6, 2)),
    ("two-outputs", "element-wise", "torch.sin(x[0]), torch.cos(x[0])", SQUARE, "", (6, 2)),
    ("gelu-bf16", "16 bits", "F.gelu(x[0])", f"{SQUARE}.bfloat16()", "", (16, 8)),
    ("softmax-bf16", "16 bits", "torch.softmax(x[0], -1)", f"{SQUARE}.bfloat16()", "", (16,)),
    ("sum-rows", "reduction", "x[0].sum(-1)", SQUARE, "", (10, 4)),
    ("max-columns", "reduction", "x[0].amax(0)", SQUARE, "", (10,)),
    ("mean-all", "reduction", "x[0].mean()", SQUARE, "", (8,)),
    ("norm-all", "reduction", "x[0] / torch.linalg.vector_norm(x[0])", SQUARE, "", (6,)),
    ("argmax", "reduction", "x[0].argmax(-1)", SQUARE, "", (8,)),
    ("softmax", "softmax", "torch.softmax(x[0], -1)", SQUARE, "", (10, 6)),
    ("softmax-long", "softmax", "torch.softmax(x[0], -1)", "torch.randn(16, N // 16)", "", (6,)),
    ("log-softmax", "softmax", "torch.log_softmax(x[0], 0)", SQUARE, "", (6,)),
    ("layer-norm", "norm", "F.layer_norm(x[0], (4096,))", SQUARE, "", (10, 4)),
    ("rms-norm", "norm", "x[0] * torch.rsqrt(x[0].square().mean(-1, keepdim=True) + 1e-5)", SQUARE, "", (6,)),
    ("group-norm", "norm", "self.g(x[0])", IMAGE, "self.g = nn.GroupNorm(8, 64)", (8,)),
    ("batch-norm", "batch statistics", "self.b(x[0])", IMAGE, "self.b = nn.BatchNorm2d(64)", (10, 8, 4)),
    ("batch-norm-1d", "batch statistics", "self.b(x[0])", SQUARE, "self.b = nn.BatchNorm1d(4096)", (6,)),
    ("instance-norm", "norm", "F.instance_norm(x[0])", IMAGE, "", (8,)),
    ("linear", "matmul", "self.w(x[0])", SQUARE, LINEAR, (6, 2)),
    ("linear-gelu", "matmul", "F.gelu(self.w(x[0]))", SQUARE, LINEAR, (4,)),
    ("bmm", "matmul", "torch.bmm(x[0], x[1])", ", ".join(["torch.randn(N // 1048576, 1024, 1024)"] * 2), "", (4,)),
    ("tall", "matmul", "x[0].T @ x[0]", "torch.randn(N // 512, 512)", "", (8,)),
    ("conv2d", "conv2d", "torch.relu(self.c(x[0]))", IMAGE, CONV2, (6, 2)),
    ("conv2d-norm", "conv2d", "self.b(self.c(x[0]))", IMAGE, f"{CONV2}\nself.b = nn.BatchNorm2d(64)", (4,)),
    ("pool2d", "conv2d", "F.max_pool2d(x[0], 2)", IMAGE, "", (10,)),
    ("conv3d", "conv3d", "self.c(x[0])", VOLUME, CONV3, (4, 1)),
    ("pool3d", "conv3d", "F.avg_pool3d(x[0], 2)", VOLUME, "", (8,)),
    ("turned3d", "transposed conv3d", "self.c(x[0])", SMALL_VOLUME, TURNED3, (4, 1)),
    ("turned3d-norm", "transposed conv3d", "F.batch_norm(self.c(x[0]), None, None, training=True)", SMALL_VOLUME,
     TURNED3, (4,)),
    ("cumsum", "scan", "x[0].cumsum(-1)", "torch.randn(32768, N // 32768)", "", (10, 4)),
    ("cumsum-columns", "scan", "x[0].cumsum(0)", SQUARE, "", (6,)),
    ("cumprod", "scan", "(1 + 0.001 * x[0]).cumprod(-1)", SQUARE, "", (4,)),
    ("cummax", "scan", "x[0].cummax(-1).values", SQUARE, "", (4,)),
    ("gather", "gather", "x[0].gather(1, x[1])", "torch.randn(N // 4096, 4096), "
     "torch.randint(0, 4096, (N // 4096, 512))", "", (8,)),
    ("embedding", "gather", "F.embedding(x[0], self.t)", "torch.randint(0, 100000, (N // 512,))",
     "self.t = nn.Parameter(torch.randn(100000, 512))", (6,)),
    ("flip", "gather", "x[0].flip(0)", SQUARE, "", (8,)),
    ("transposed", "gather", "x[0].T.contiguous() * 2", SQUARE, "", (8,)),
    ("attention", "attention", "F.scaled_dot_product_attention(*x)", HEADS, "", (0.5,)),
    ("attention-plain", "attention", "torch.softmax(x[0] @ x[1].transpose(1, 2) * 0.125, -1) @ x[2]", HEADS, "",
     (0.1,)),
    ("mse", "loss", "F.mse_loss(x[0], x[1])", PAIR, "", (8, 4)),
    ("huber", "loss", "F.smooth_l1_loss(x[0], x[1])", PAIR, "", (4,)),
    ("cross-entropy", "loss", "F.cross_entropy(x[0], x[1])", f"{SQUARE}, torch.randint(0, 4096, (N // 4096,))", "",
     (8,)),
    ("cosine", "loss", "1 - F.cosine_similarity(x[0], x[1]).mean()", PAIR, "", (6,)),
    ("triplet", "loss", "F.triplet_margin_loss(*x)", ", ".join(["torch.randn(N // 4096, 4096)"] * 3), "", (4,)),
)  # fmt: skip
FIRST = (
    "swish-10", "cumsum-10", "turned3d-norm-4", "conv2d-6", "mse-8", "gelu-bf16-16", "linear-6", "in-place-6",
    "batch-norm-10", "gather-8", "attention-0.5", "sum-rows-10", "layer-norm-10", "conv3d-4",
)  # fmt: skip


def large_problems() -> dict[str, Large]:
    """All by name; those of FIRST first, then by turns one of each group, so that the first few cover all."""
    every = [
        Large(f"{name}-{size:g}", group, size, forward, inputs, init)
        for name, group, forward, inputs, init, sizes in _TABLE
        for size in sizes
    ]
    named = {one.name: one for one in every}
    order = [named[name] for name in FIRST]
    rest = [one for one in every if one.name not in FIRST]
    while rest:
        for group in dict.fromkeys(one.group for one in rest):
            one = next(one for one in rest if one.group == group)
            rest.remove(one)
            order.append(one)
    return {one.name: one for one in order}
