"""Products are counted by whatever operator of torch they are computed, and copies in inference mode, too."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import bilinear

from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.op_witness import OpWitness
from judge.bench.interpreting.origins import Origins
from judge.bench.interpreting.traffic import Ledger

X, W, B = torch.randn(8, 32), torch.randn(16, 32), torch.randn(16)
WHOLE = 2 * 8 * 32 * 16  # operations of X @ W.T


def counted(compute):
    ledger, witness = Ledger(), OpWitness()
    with counting_ops(ledger), witness.watching(ledger):
        compute()
    assert witness.unseen == []
    return ledger.kernels


@pytest.mark.parametrize(
    "compute",
    [
        lambda: torch.addbmm(torch.zeros(8, 16), X[None], W.t()[None]),
        lambda: torch.zeros(8, 16).addmm_(X, W.t()),
        lambda: torch.stack([torch.addmv(B, W, row) for row in X]),
        lambda: torch.cdist(X, W, compute_mode="use_mm_for_euclid_dist"),
        lambda: bilinear(X, torch.ones(8, 1), W[:, :, None], B),
        lambda: torch.linalg.inv(torch.eye(56)),
    ],
    ids=["addbmm", "in place", "rows", "distances", "bilinear", "inverse"],
)
def test_no_operator_hides_a_product(compute):
    assert sum(sum(row.dot_flops.values()) for row in counted(compute)) >= WHOLE


def test_what_has_no_product_counts_none():
    rows = counted(lambda: torch.where(X > 0, X, 0.5).add_(1).softmax(-1) * W[:8])
    assert len(rows) == 6 and not any(row.dot_flops for row in rows)


@torch.inference_mode()
def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().to(torch.float32).reshape(8, 32) + 1


def test_a_copy_in_inference_mode_is_counted_and_known():
    assert [row.name for row in counted(lambda: transposed(X))] == ["aten.clone", "aten.add"]
    origins = Origins()
    for x in (X.clone(), X * 2):
        with origins.watching():
            origins.returned(transposed(x))
        assert origins.found == []
