"""Sizes beside the one that a problem gives the interpreter: constants by problem and size.

`middle` is still short, `large` fills a GPU, `huge` is more than an L2 holds, or a product worth the name.
"""

from __future__ import annotations

GIVEN, MIDDLE, LARGE, HUGE = "given", "middle", "large", "huge"

Constants = dict[str, int]


def _sizes(middle: Constants, large: Constants, **huge: int) -> dict[str, Constants]:
    return {MIDDLE: middle, LARGE: large} | ({HUGE: huge} if huge else {})


def _rows(rows: str, columns: str, middle: int = 2048, large: int = 4096) -> dict[str, Constants]:
    return _sizes({rows: 256, columns: middle}, {rows: 2048, columns: large}, **{rows: 8192, columns: large})


def _heads(batch: int, heads: int, length: int) -> Constants:
    return {"BATCH": batch, "HEADS": heads, "LENGTH": length}


def _attention() -> dict[str, Constants]:
    return _sizes(
        {**_heads(1, 4, 256), "WIDTH": 64}, {**_heads(2, 8, 512), "WIDTH": 64}, **_heads(2, 16, 1024), WIDTH=64
    )


SIZES: dict[str, dict[str, Constants]] = {
    "absmax_scale": _rows("ROWS", "COLUMNS"),
    "attention": _attention(),
    "bias_gelu_scale": _rows("ROWS", "COLUMNS"),
    "biased_score_softmax": _sizes(_heads(2, 4, 256), _heads(4, 8, 512)),
    "causal_attention": _attention(),
    "layer_norm_gelu": _rows("TOKENS", "WIDTH", middle=1024),
    "linear_gelu_residual": _sizes(
        {"TOKENS": 512, "WIDTH": 256}, {"TOKENS": 2048, "WIDTH": 512}, TOKENS=8192, WIDTH=1024
    ),
    "linear_layer_norm": _sizes(
        {"TOKENS": 256, "WIDTH_IN": 256, "WIDTH_OUT": 256},
        {"TOKENS": 2048, "WIDTH_IN": 256, "WIDTH_OUT": 512},
        TOKENS=8192, WIDTH_IN=512, WIDTH_OUT=1024,
    ),
    "linear_relu_scale": _sizes(
        {"ROWS": 256, "WIDTH_IN": 256, "WIDTH_OUT": 512},
        {"ROWS": 1024, "WIDTH_IN": 512, "WIDTH_OUT": 1024},
        ROWS=4096, WIDTH_IN=1024, WIDTH_OUT=2048,
    ),
    "log_sum_exp": _sizes({"ROWS": 256, "COLUMNS": 4000}, {"ROWS": 1024, "COLUMNS": 16000}),
    "matmul_swish_clamp": _sizes(
        {"ROWS": 256, "INNER": 512, "COLUMNS": 256},
        {"ROWS": 1024, "INNER": 800, "COLUMNS": 1000},
        ROWS=4096, INNER=1000, COLUMNS=3000,
    ),
    "mish_gate_bf16": _rows("TOKENS", "WIDTH"),
    "residual_hardswish": _sizes({"BATCH": 8, "CHANNELS": 64, "SIDE": 28}, {"BATCH": 16, "CHANNELS": 128, "SIDE": 56}),
    "residual_rms_norm": _rows("TOKENS", "WIDTH", middle=1024),
    "rms_norm_bf16": _rows("TOKENS", "WIDTH", middle=1024),
    "row_energy": _rows("ROWS", "COLUMNS", large=8192),
    "row_softmax": _rows("ROWS", "COLUMNS", middle=2000, large=4000),
    "swiglu": _rows("TOKENS", "WIDTH"),
}  # fmt: skip
# The problems of the self-test: one larger size each, between a tenth and all of what a GPU is asked.
_TESTED: dict[str, Constants] = {
    "batch_norm_eval": {"BATCH": 16, "CHANNELS": 64, "SIDE": 56},
    "batched_matmul": {"BATCH": 8, "ROWS": 256, "INNER": 333, "COLUMNS": 260},
    "bilinear_upsample": {"BATCH": 4, "CHANNELS": 32, "HEIGHT": 100, "WIDTH": 96},
    "block_transpose": {"BATCH": 2048, "SIDE": 60},
    "cache_update": {"SLOTS": 16384, "NEW": 1000, "WIDTH": 512},
    "causal_conv1d": {"BATCH": 4, "CHANNELS": 128, "LENGTH": 2000},
    "column_sum": {"ROWS": 8192, "COLUMNS": 1000},
    "convolution": {"BATCH": 4, "CHANNELS_IN": 8, "CHANNELS_OUT": 32, "SIDE": 57},
    "copy_and_norms": {"ROWS": 2048, "COLUMNS": 2000},
    "cross_entropy": {"ROWS": 1024, "CLASSES": 16000},
    "deep_matmul": {"ROWS": 128, "INNER": 8000, "COLUMNS": 200},
    "deep_matmul_bf16": {"ROWS": 256, "INNER": 4000, "COLUMNS": 250},
    "double_softplus": {"ROWS": 2048, "COLUMNS": 2000},
    "floor_division": {"SIZE": 8_000_001},
    "gap_maximum": {"ROWS": 2048, "COLUMNS": 3000},
    "group_norm": {"BATCH": 16, "CHANNELS": 64, "GROUPS": 32, "SIDE": 56},
    "half_matmul": {"ROWS": 1024, "INNER": 512, "COLUMNS": 1000},
    "histogram": {"ROWS": 512, "COLUMNS": 4000},
    "in_place_relu": {"ROWS": 4096, "COLUMNS": 2500},
    "index_add": {"EDGES": 4000, "NODES": 1000, "WIDTH": 128},
    "linear_recurrence": {"ROWS": 4096, "LENGTH": 120},
    "lstm_cell": {"BATCH": 256, "WIDTH": 512},
    "max_pool": {"BATCH": 16, "CHANNELS": 32, "HEIGHT": 113, "WIDTH": 112},
    "mean_pool": {"BATCH": 32, "CHANNELS": 128, "HEIGHT": 56, "WIDTH": 55},
    "pairwise_distance": {"LEFT": 500, "RIGHT": 600, "WIDTH": 96},
    "permuted_output": {"BATCH": 8, "LENGTH": 500, "HEADS": 12, "WIDTH": 64},
    "polynomial_hash": {"ROWS": 500_000, "COLUMNS": 16},
    "quantise": {"ROWS": 2048, "COLUMNS": 3000},
    "rotary": {"BATCH": 4, "LENGTH": 500, "HEADS": 16, "WIDTH": 128},
    "round_half": {"SIZE": 8_000_003},
    "row_argmax": {"ROWS": 2048, "COLUMNS": 4000},
    "row_cumsum": {"ROWS": 1024, "COLUMNS": 4000},
    "smooth_l1": {"SIZE": 8_000_001},
    "threshold_mask": {"ROWS": 2048, "COLUMNS": 3000},
    "token_embedding": {"BATCH": 8, "LENGTH": 512, "WORDS": 32000, "WIDTH": 768},
    "top_values": {"ROWS": 2048, "COLUMNS": 250},
    "transpose": {"BATCH": 8, "CHANNELS": 320, "AREA": 3136},
    "transposed_input": {"ROWS": 800, "INNER": 500, "COLUMNS": 700},
    "unit_rows": {"ROWS": 8000, "COLUMNS": 1000},
}  # fmt: skip
SIZES |= {problem: {LARGE: constants} for problem, constants in _TESTED.items()}
