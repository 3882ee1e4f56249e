"""The recorder: what compiles, what does not, and what the message says."""

import os
import tempfile
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from judge.bench.compiling import recorded_triton, shared_memory
from judge.bench.compiling import recorder as recorder_module
from judge.bench.compiling.recorder import CompileFailed
from judge.bench.exchange.uncomputed import blank
from judge.bench.interpreting.tuning_record import Group
from judge.bench.processes.pool import Ticket


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def breaks(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    for j in range(0, 10):
        if j > 3:
            break
        tl.store(out + i, tl.load(x + i))


@triton.jit
def bad_inner(v):
    return tl.dot(v, v)


@triton.jit
def calls_bad_inner(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, bad_inner(tl.load(x + i)))


@triton.jit
def changes_type(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = 0
    for _ in range(0, 10):
        acc = acc + tl.load(x + i)
    tl.store(out + i, acc)


@triton.jit
def tile_product(a, b, c, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + k + j[None, :])
        y = tl.load(b + (k + j)[:, None] * BM + i[None, :])
        acc += tl.dot(x, y)
    tl.store(c + i[:, None] * BM + i[None, :], acc)


@triton.jit
def wrong_assembly(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.inline_asm_elementwise("bogus $0, $1;", "=f,f", [tl.load(x + i)], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + i, v)


SMALL, HUGE = triton.Config({"BM": 32, "BK": 32}), triton.Config({"BM": 32, "BK": 128}, num_stages=9)
some_fit = triton.autotune([HUGE, SMALL], key=["K"])(tile_product)
none_fit = triton.autotune([HUGE, triton.Config({"BM": 32, "BK": 128}, num_stages=10)], key=["K"])(tile_product)
small_last = triton.autotune([triton.Config({"BM": size, "BK": 32}) for size in (128, 64, 16)], key=["K"])(tile_product)
odd_last = triton.autotune([triton.Config({"BM": size, "BK": 32}) for size in (32, 100, 64)], key=["K"])(tile_product)
long_list = triton.autotune([triton.Config({"BLOCK": 64}, maxnreg=32 + n) for n in range(70)], key=["n"])(add)

X, OUT = torch.rand(1024), torch.empty(1024)
A, C = torch.rand(128, 1024), torch.empty(128, 128)


def _failure(recorder, launch):
    with pytest.raises(CompileFailed) as caught, recorder.recording():
        launch()
    return caught.value


def check_a_launch_is_recorded_with_its_needs(recorder):
    with recorder.recording():
        add[(4,)](X, X, OUT, 1024, BLOCK=256, num_warps=8)
    [row] = recorder.kernels
    assert (row["name"], row["grid"], row["num_warps"], row["error"]) == ("add", [4, 1, 1], 8, None)
    assert 0 < row["regs"] < 64 and row["spills"] == 0 and row["shared_bytes"] == 0


def check_shared_memory_of_a_dot_is_recorded(recorder):
    with recorder.recording():
        tile_product[(1,)](A, A, C, K=1024, BM=32, BK=32)
    assert recorder.kernels[0]["shared_bytes"] >= 2 * 32 * 32 * 4


def check_what_does_not_fit_says_needed_and_available(recorder):
    found = _failure(recorder, lambda: tile_product[(1,)](A, A, C, K=1024, BM=32, BK=128, num_stages=9))
    assert found.reason == "compile.resources"
    assert "available 232448 bytes" in found.message and "needs " in found.message


def check_an_error_shows_line_and_caret_and_no_machine_path(recorder):
    found = _failure(recorder, lambda: breaks[(1,)](X, OUT, N=128))
    first, source, caret = found.message.split("\n")
    assert found.reason == "compile.error"
    assert first.startswith("compiling.py:") and "Break" in first
    assert source.strip() == "break" and caret.index("^") == source.index("break")
    assert "/" not in first


def check_an_error_in_a_nested_function_shows_the_inner_line(recorder):
    found = _failure(recorder, lambda: calls_bad_inner[(1,)](X, OUT, N=128))
    assert "return tl.dot(v, v)" in found.message and "rank" in found.message


def check_a_type_change_in_a_loop_is_an_error(recorder):
    found = _failure(recorder, lambda: changes_type[(1,)](X, OUT, N=128))
    assert found.reason == "compile.error" and "acc" in found.message and "int32" in found.message


def check_ptxas_errors_are_kept(recorder):
    found = _failure(recorder, lambda: wrong_assembly[(1,)](X, OUT, N=128))
    assert found.reason == "compile.error" and "bogus" in found.message and "Repro" not in found.message


def check_wrong_arguments_are_compile_errors(recorder):
    missing = _failure(recorder, lambda: add[(1,)](X, X, OUT, 1024))
    unknown = _failure(recorder, lambda: add[(1,)](X, X, OUT, 1024, BLOCK=64, FOO=1))
    assert "BLOCK" in missing.message and "FOO" in unknown.message


def check_a_swallowed_failure_still_fails(recorder):
    def forward():
        try:
            breaks[(1,)](X, OUT, N=128)
        except CompileFailed:
            return X + 1

    assert _failure(recorder, forward).reason == "compile.error"


def check_a_kernel_launched_before_a_recording_and_in_it_is_compiled_once(recorder):
    """As by a candidate that packs its weights in prepare() with the kernel that forward launches."""
    with recorder.recording():
        pass
    for _ in range(2):
        add[(1,)](X, X, OUT, 1024, BLOCK=512, num_warps=2)
        with recorder.recording():
            add[(2,)](X, X, OUT, 1024, BLOCK=512, num_warps=2)
        assert [(row["grid"], row["error"]) for row in recorder.kernels] == [([1, 1, 1], None), ([2, 1, 1], None)]
        assert len(recorder.codes) == 1


def check_a_kernel_that_is_launched_before_a_recording_only_must_compile_too(recorder):
    breaks[(1,)](X, OUT, N=64)
    assert _failure(recorder, lambda: add[(1,)](X, X, OUT, 1024, BLOCK=256)).reason == "compile.error"
    with recorder.recording():
        add[(1,)](X, X, OUT, 1024, BLOCK=256)
    assert [row["name"] for row in recorder.kernels] == ["add"]


def check_what_an_earlier_recording_gave_up_on_is_compiled_anew(recorder):
    """A kernel stays in Triton's own cache with its ticket, whatever becomes of the pool that has it."""
    add[(1,)](X, X, OUT, 1024, BLOCK=128, num_warps=2)
    recorder.reset()
    with recorder.recording():
        add[(1,)](X, X, OUT, 1024, BLOCK=128, num_warps=2)
    assert recorder.kernels[0]["error"] is None


def check_the_code_of_a_launch_follows_text_constants_and_kinds_of_arguments(recorder):
    codes = []
    for kernel, args, constants in (
        (add, (X, X, OUT, 1024), {"BLOCK": 64}), (add, (X, X, OUT, 512), {"BLOCK": 64}),
        (add, (X, X, OUT, 1), {"BLOCK": 64}), (add, (X.half(), X, OUT, 8), {"BLOCK": 64}),
        (add, (X, X, OUT, 8), {"BLOCK": 32}), (tile_product, (A, A, C, 64), {"BM": 16, "BK": 16}),
    ):  # fmt: skip
        with recorder.recording():
            kernel[(1,)](*args, **constants)
        codes += recorder.codes
    assert codes[0] == codes[1] and len(set(codes)) == 5


def check_a_configuration_that_does_not_fit_is_dropped(recorder):
    with recorder.recording():
        some_fit[(1,)](A, A, C, K=1024)
    assert [row["error"] is None for row in recorder.tuned] == [False, True]
    assert len(recorder.kernels) == 1 and recorder.kernels[0]["shared_bytes"] < 64 * 1024


def check_all_configurations_too_large_fail(recorder):
    assert _failure(recorder, lambda: none_fit[(1,)](A, A, C, K=1024)).reason == "compile.resources"


def check_small_configurations_come_first_wherever_they_stand(recorder):
    workers, before = recorder.workers, recorder_module.TUNING_S
    recorder.workers, recorder_module.TUNING_S = 1, 0.0
    try:
        with recorder.recording():
            small_last[(1,)](X, X, OUT, K=256)
    finally:
        recorder.workers, recorder_module.TUNING_S = workers, before
    [group] = recorder.tuning_groups()
    assert [name.split(",")[0] for name in group["compiled"]] == ["BM: 16"] and group["late"] == 2, group


def check_what_there_was_no_time_for_may_still_be_wrong_at_first_sight(recorder):
    """Triton's autotuner would raise there too: a tile that is no power of two is none of what it forgives."""
    workers, before = recorder.workers, recorder_module.TUNING_S
    recorder.workers, recorder_module.TUNING_S = 1, 0.0
    try:
        failed = _failure(recorder, lambda: odd_last[(1,)](X, X, OUT, K=320))
    finally:
        recorder.workers, recorder_module.TUNING_S = workers, before
    assert failed.reason == "compile.error" and "power of 2" in failed.message, failed.message
    [group] = recorder.tuning_groups()
    assert (group["late"], group["unfit"], len(group["compiled"])) == (1, 1, 1), group


def check_nothing_is_blamed_for_a_list_that_was_cut_before_anything_fitted(recorder):
    """What was not compiled may fit; a busy machine is no fault of the candidate."""
    refused = {"reason": "compile.resources", "error": "too large", "drops": True}
    for results, reason, words in (
        ((refused, None), "compile.incomplete", "is known to fit, but 1 were not compiled"),
        ((None, None), "compile.timeout", "none of 2 configurations was compiled within 30 s"),
        ((refused, refused), "compile.resources", "none of 2 configurations can be launched; the smallest: too large"),
    ):
        recorder.reset()
        group = Group("k", "key", 2, ["a", "b"], recorder.clock(), guessed=False)
        group.tried += [({"name": "k"}, Ticket(dict, urgent=False, result=result)) for result in results]
        recorder.groups.append(group)
        recorder.on_launch({"name": "k", "grid": [1, 1, 1]}, group.tickets()[0])
        recorder._settle(0.0)
        assert recorder.failure.reason == reason and words in recorder.failure.message, recorder.failure.message
    recorder.reset()


def check_shared_memory_is_known_before_anything_is_lowered(recorder):
    told, original = Path(tempfile.mkdtemp()) / "bytes", shared_memory.allocated

    def told_too(*args):
        needed = original(*args)
        told.write_text(str(needed))
        return needed

    shared_memory.allocated = told_too
    try:
        with recorder.recording():
            tile_product[(1,)](X, X, OUT, K=96, BM=32, BK=32)
    finally:
        shared_memory.allocated = original
    early, needed = int(told.read_text()), recorder.kernels[0]["shared_bytes"]
    assert 0 < early <= needed <= early + 1024, (early, needed)  # the assembler reserves a kilobyte


def check_what_cannot_fit_is_refused_without_compiling_it(recorder):
    """Lowering this one would take minutes and end as compile.timeout."""
    failed = _failure(recorder, lambda: tile_product[(1,)](X, X, OUT, K=512, BM=512, BK=256))
    assert failed.reason == "compile.resources", failed


def check_long_autotune_lists_are_cut_and_noted(recorder):
    before, recorded_triton.CONFIG_LIMIT = recorded_triton.CONFIG_LIMIT, 5
    try:
        with recorder.recording():
            long_list[(1,)](X, X, OUT, 64)
    finally:
        recorded_triton.CONFIG_LIMIT = before
    assert len(recorder.tuned) == 5
    assert recorder.notes == ["add: 65 of 70 configurations not compiled"]


def check_slow_autotune_lists_are_cut_and_noted(recorder):
    before, recorder_module.TUNING_S = recorder_module.TUNING_S, 0.0
    try:
        with recorder.recording():
            long_list[(1,)](X, X, OUT, 63)
    finally:
        recorder_module.TUNING_S = before
    [group] = recorder.tuning_groups()
    assert 1 <= len(group["compiled"]) <= recorder.workers + 1
    assert group["late"] + len(group["compiled"]) == 64 and group["over_limit"] == 6
    assert len(recorder.notes) == 2 and recorder.kernels[0]["regs"] > 0


def check_control_flow_on_kernel_results_is_incomplete(recorder):
    def index():
        add[(4,)](X, X, OUT, 1024, BLOCK=256)
        return [1.0][int(OUT.max()) - 5]

    def wait():
        add[(4,)](X, X, OUT, 1024, BLOCK=256)
        while OUT.sum() >= 0:
            pass

    OUT.zero_()
    assert _failure(recorder, index).reason == "compile.incomplete"
    assert _failure(recorder, wait).reason == "compile.incomplete"


def check_a_failure_after_a_guess_is_incomplete(recorder):
    def forward():
        add[(4,)](X, X, OUT, 1024, BLOCK=256)
        breaks[(1,)](X, OUT, N=int(OUT.sum()) + 128)

    assert _failure(recorder, forward).reason == "compile.incomplete"


def check_values_of_large_tensors_are_guesses_before_any_launch(recorder):
    def forward():
        rows = torch.ones(1 << 12, 1 << 12)
        breaks[(1,)](X, OUT, N=128 + int(rows.sum()))

    def raises():
        return [1.0][int(torch.ones(1 << 12, 1 << 12).sum()) + 5]

    assert _failure(recorder, forward).reason == "compile.incomplete"
    failed = _failure(recorder, raises)
    assert failed.reason == "compile.incomplete" and "looked at values" in failed.message, failed.message


def check_parts_of_large_tensors_are_guesses_too(recorder):
    given = blank((1 << 12, 1 << 12), (1 << 12, 1), torch.float32)
    for looked_at in (lambda: given[0, 0], lambda: (given[0, :4] + 1).sum()):
        recorder.uncomputed.skipped = 0
        failed = _failure(recorder, lambda look=looked_at: breaks[(1,)](X, OUT, N=128 << (int(look()) & 1)))
        assert failed.reason == "compile.incomplete"
    recorder.uncomputed.skipped = 0
    known = torch.ones(4)
    assert _failure(recorder, lambda: breaks[(1,)](X, OUT, N=128 << int(known[0]))).reason == "compile.error"


def check_large_operators_are_not_computed(recorder):
    recorder.uncomputed.skipped = 0
    with recorder.recording():
        rows = torch.randn(1 << 14, 1 << 14)
        rows = torch.nn.functional.gelu(rows @ rows)
        add[(4,)](rows, rows, torch.empty_like(rows), 1024, BLOCK=256)
    assert len(recorder.kernels) == 1 and rows.shape == (1 << 14, 1 << 14)
    assert recorder.uncomputed.skipped >= 3, "the product alone would take minutes"


def check_a_compiler_that_dies_is_an_error_and_not_a_hang(recorder):
    def kill() -> None:
        os.kill(os.getpid(), 9)

    with recorder.recording():
        ticket = recorder.pool.submit(lambda: {"never": kill()})
        assert recorder.pool.wait([ticket], recorder.clock() + 20)
    assert ticket.result == {"died": "SIGKILL"}


def check_an_error_before_the_first_launch_is_the_candidates(recorder):
    with pytest.raises(ZeroDivisionError), recorder.recording():
        _ = 1 // 0


def check_uninitialised_memory_reads_as_zero(recorder):
    with recorder.recording():
        x = torch.empty(1000, device="cuda")
        assert x.is_cuda and float(x.abs().sum()) == 0.0


def check_impossible_grids_are_refused(recorder):
    found = _failure(recorder, lambda: add[(1, 70_000)](X, X, OUT, 1024, BLOCK=64))
    assert found.reason == "compile.resources" and "65535" in found.message


def check_files_go_where_the_environment_says_now(recorder):
    before = {name: os.environ[name] for name in ("TMPDIR", "TRITON_CACHE_DIR")}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(TMPDIR=folder, TRITON_CACHE_DIR=f"{folder}/cache")
        try:
            with recorder.recording():
                add[(4,)](X, X, OUT, 1024, BLOCK=32)
            assert tempfile.gettempdir() == folder
            assert any(name.endswith(".cubin") for _, _, files in os.walk(folder) for name in files)
        finally:
            os.environ.update(before)
            recorder.reset()


def check_kernels_say_their_registers(recorder):
    with recorder.recording():
        compiled = add.warmup(X, X, OUT, 1024, BLOCK=256, grid=(1,))
        compiled._init_handles()
    assert compiled.n_regs > 0
