"""Values that come into a call from where nothing is counted are found by what they change; honest calls have none."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from judge.bench.audit.state_checks import check_origins
from judge.bench.interpreting import origins as whole
from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.origins import Origins
from judge.bench.interpreting.traffic import Ledger
from judge.values import Verdict
from tests.judge.audit_setting import ended
from tests.judge.replies import forwarded

X, Y = torch.randn(40, 8), torch.randn(40, 8)
ARRAY = np.zeros((40, 8), np.float32)
CACHE: dict[str, torch.Tensor] = {}  # filled in tests: what pytest froze the garbage collector does not tell


@pytest.fixture(autouse=True)
def kept():
    CACHE.update(kept=torch.from_numpy(ARRAY), pointed=torch.zeros(40, 8), table=torch.arange(320.0))
    yield
    CACHE.clear()


def memory(tensor: torch.Tensor) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr()))


def found(forward, *asked: torch.Tensor) -> list[str]:
    origins = Origins()
    told = []
    for x in asked or (X, X, Y):
        with origins.watching():
            given_back = forward(x, origins)
            origins.returned(given_back)
        told += origins.found
        del given_back
    return list(dict.fromkeys(told))


def launch(origins, *given, write=lambda: None, grid=lambda: None):
    def run(foreign):
        foreign(grid)
        write()

    origins.launch("kernel", given, run)


def by_numpy_on_kept_memory(x, origins):
    CACHE["kept"].copy_(x)
    np.sqrt(np.abs(ARRAY), out=ARRAY)
    return CACHE["kept"] + 1


def by_ctypes(x, origins):
    y = torch.empty_like(x)
    memory(y)[:] = memory(x) * 2
    return y + 1


def after_the_last_event(x, origins):
    y = x * 2
    memory(y)[:] = memory(x)
    return y


def in_the_grid(x, origins):
    y = torch.zeros_like(x)
    launch(origins, x, y, grid=lambda: memory(y).__setitem__(slice(None), memory(x)))


def between_launches(x, origins):
    y = torch.zeros_like(x)
    launch(origins, x, y, write=lambda: memory(y).__setitem__(0, 1.0))
    memory(y)[1] = 2.0
    launch(origins, (y,))


@pytest.mark.parametrize(
    ("forward", "by"),
    [
        (by_numpy_on_kept_memory, "aten.add takes up 1,280 bytes"),
        (by_ctypes, "aten.add takes up 1,280 bytes"),
        (after_the_last_event, "what forward returns takes up 1,280 bytes"),
        (in_the_grid, "kernel takes up 1,280 bytes"),
        (between_launches, "kernel takes up 1,280 bytes"),
    ],
)
def test_memory_that_changes_between_counted_events_is_told(forward, by):
    assert any(text.startswith(by) for text in found(forward))


def by_a_method_of_an_argument(x, origins):
    y = torch.zeros_like(x)
    y.storage_offset = lambda: 0
    launch(origins, x, y)


def by_an_object_that_looks_like_a_tensor(x, origins):
    launch(origins, SimpleNamespace(data_ptr=x.data_ptr))


@pytest.mark.parametrize("forward", [by_a_method_of_an_argument, by_an_object_that_looks_like_a_tensor])
def test_arguments_whose_methods_a_launch_would_call_are_told(forward):
    (text,) = found(forward, X.clone())
    assert text.endswith("with methods of its own")


def python_lists(x, origins):
    return torch.tensor([[value * 2 for value in row] for row in x.tolist()]) + 1


def numpy_arrays(x, origins):
    return torch.from_numpy(np.sqrt(np.abs(x.numpy()))) + 1


def an_array_as_the_output(x, origins):
    return torch.from_numpy(np.sqrt(np.abs(x.numpy())))


def one_number(x, origins):
    y = torch.zeros(())
    launch(origins, x, y, x.numpy().sum().item(), write=lambda: y.fill_(1))
    return y


def one_number_of_a_table(x, origins):
    table = torch.arange(4096)
    return table[int(abs(x.numpy().sum()) * 10)] + 0


def numbers_for_kernels(x, origins):
    for value in x.flatten().tolist():
        launch(origins, x, value)


BY_THE_HOST = [python_lists, numpy_arrays, an_array_as_the_output, one_number, one_number_of_a_table]


@pytest.mark.parametrize("forward", [*BY_THE_HOST, numbers_for_kernels])
def test_values_from_the_host_that_depend_on_content_are_told(forward):
    (text,) = found(forward)
    assert "came from the host" in text
    assert found(forward, X, X) == [], "equal content"


def honest(x, origins):
    scale = float(x.abs().max())  # one number
    y = (x / scale) @ torch.tensor([[float(i == j) for i in range(8)] for j in range(8)])  # a constant
    scratch = CACHE.setdefault("scratch", torch.empty(40, 8))
    launch(origins, x, scratch, write=lambda: scratch.copy_(x))
    launch(origins, [scratch, CACHE["table"]], 3, scale)
    x[0] += 1
    lengths = torch.randint(1, 5, (4,)).tolist()
    mask = torch.nn.functional.dropout(y, 0.5) + torch.from_numpy(np.arange(8, dtype=np.float32))
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        torch.autograd.grad(leaf.exp().sum(), leaf)
    return mask.view(8, 40).t().contiguous() + sum(lengths)


def torch_in_the_grid(x, origins):
    y = torch.zeros_like(x)
    launch(origins, x, y, grid=lambda: y.copy_(x))


def through_addresses(x, origins):
    table = torch.tensor([CACHE["pointed"].data_ptr()])
    launch(origins, table, write=lambda: memory(CACHE["pointed"]).__setitem__(slice(None), memory(x)))
    return CACHE["pointed"] + 1


def one_number_read_back(x, origins):
    y = torch.zeros(())
    launch(origins, x, y, float(x.sum()), write=lambda: y.fill_(1))
    return y * float(x.abs().max())


@pytest.mark.parametrize("forward", [honest, torch_in_the_grid, through_addresses, one_number_read_back])
def test_honest_calls_have_none(forward):
    assert found(forward, X.clone(), X.clone(), Y.clone()) == []


def doubled(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    memory(y)[:] = memory(x) * 2
    return y


def test_an_added_operator_is_what_it_calls(added):
    unseen = added("unseen", doubled)
    assert found(lambda x, origins: unseen(x) + 1)
    seen = added("seen", lambda x: x @ x.t())
    assert found(lambda x, origins: seen(x) + 1, X.clone(), X.clone(), Y.clone()) == []
    ledger = Ledger()
    with counting_ops(ledger):
        seen(X)
    assert [row.name for row in ledger.kernels] == ["aten.mm"]


@pytest.fixture
def added():
    library = torch.library.Library("test_origins", "DEF")

    def add(name, compute):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, compute, "CPU")
        return getattr(torch.ops.test_origins, name)

    yield add
    library._destroy()


def test_an_operator_of_torch_with_another_kernel_is_told(monkeypatch):
    monkeypatch.setattr(torch.library, "_impls", torch.library._impls | {"aten/hypot/CPU", "test_origins/new/CPU"})
    assert found(lambda x, origins: None) == ["aten/hypot/CPU was given another kernel"]


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd", "AutocastCPU"])
def test_another_kernel_is_told_when_it_is_taken_back_before_forward_ends(key):
    def forward(x, origins):
        library = torch.library.Library("aten", "IMPL")
        library.impl("hypot", lambda one, other: one, key)
        y = torch.hypot(x, x)
        library._destroy()
        return y

    assert f"aten/hypot/{key} was given another kernel" in found(forward)


def test_between_calls_everything_may_change():
    origins = Origins()
    for _ in range(2):
        with origins.watching():
            CACHE["kept"].mul(2)
        ARRAY[:] += 1
    assert origins.found == []


class Draws:
    """In place of the operating system's."""

    def __init__(self, value: float) -> None:
        self.random = lambda: value


@pytest.mark.parametrize(("draw", "told"), [(0.1, True), (0.9, False)])
def test_beyond_a_limit_some_of_the_memory_is_compared(monkeypatch, draw, told):
    monkeypatch.setattr(whole, "MOST_BYTES", 1500)
    monkeypatch.setattr(whole.random, "SystemRandom", lambda: Draws(draw))
    assert bool(found(lambda x, origins: by_ctypes(x.sin() + 1, origins), X.clone())) is told


def test_memory_that_is_only_made_does_not_use_the_limit_up(monkeypatch):
    monkeypatch.setattr(whole, "MOST_BYTES", 4000)
    monkeypatch.setattr(whole.random, "SystemRandom", lambda: Draws(0.99))

    def forward(x, origins):
        for _ in range(9):
            torch.empty(1 << 20)
        return by_ctypes(x, origins)

    assert found(forward)


def test_it_is_suspect_with_what_was_found():
    told = [forwarded(uncounted=["a", "b"]), forwarded(uncounted=["a"])]
    assert ended(lambda: check_origins(*told)) == (Verdict.SUSPECT, "audit", "audit.uncounted")
    check_origins(forwarded(), forwarded())
