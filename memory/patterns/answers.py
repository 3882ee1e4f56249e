"""Verdicts of the judge on candidates that ran: structure, state, precision, values."""

from __future__ import annotations

from memory.patterns.values import Pattern

PATTERNS = (
    Pattern(
        "output-shape",
        "the output has another shape",
        kinds=("structure.shape",),
        lesson="Return outputs of exactly the reference's shapes; keep the axes that it keeps, and squeeze none.",
    ),
    Pattern(
        "output-dtype",
        "the output has another dtype",
        kinds=("structure.dtype",),
        lesson="Return outputs in the reference's dtype; convert at the store where the kernel computes in another.",
    ),
    Pattern(
        "output-nesting",
        "the output is nested otherwise",
        kinds=("structure.nesting", "structure.type"),
        lesson="Return exactly what the reference returns: a tensor where it returns one, and the same nesting of "
        "tuples "
        "and lists.",
    ),
    Pattern(
        "input-changed",
        "forward changes its input",
        kinds=("state.input_changed", "state.alias"),
        lesson="Do not write into the inputs or return them as outputs; write to a new tensor.",
    ),
    Pattern(
        "stale-parameters",
        "forward uses parameters that have been replaced",
        kinds=("state.stale_params",),
        lesson="Do not derive weights in __init__ or keep them between calls; do it in forward, or in prepare(), "
        "which is "
        "called after every change.",
    ),
    Pattern(
        "buffers-changed",
        "buffers are not what the reference leaves",
        kinds=("state.buffers",),
        lesson="Update running statistics and other buffers exactly as the reference does, or leave them alone where "
        "it "
        "does.",
    ),
    Pattern(
        "parameters-do-not-fit",
        "the parameters are not the reference's",
        kinds=("load.params",),
        lesson="Declare the reference's parameters under its names and shapes; where the layout has to differ, define "
        "load_reference_state(self, state).",
    ),
    Pattern(
        "precision-tf32",
        "right at TF32 only",
        kinds=("precision.tf32",),
        lesson='Do not multiply float32 at TF32: pass input_precision="ieee" or "tf32x3" to tl.dot, and leave torch\'s '
        "TF32 switches off.",
        operator="tl.dot",
    ),
    Pattern(
        "precision-half",
        "right at half precision only",
        kinds=("precision.half",),
        lesson="Do not compute or store intermediate values of a float32 problem in half precision; accumulate and "
        "keep "
        "them in float32.",
    ),
    Pattern(
        "precision-single",
        "right at single precision only",
        kinds=("precision.single",),
        lesson="Do not compute a float64 problem in float32; keep accumulators, constants and intermediate values in "
        "float64.",
    ),
    Pattern(
        "output-unwritten",
        "parts of the output are never written",
        kinds=("value.partial",),
        lesson="Write every element of the output: let the grid cover it with triton.cdiv, the last block under a "
        "mask.",
    ),
    Pattern(
        "not-finite",
        "NaN or infinity where the reference has none",
        kinds=("value.nonfinite",),
        nothing="Values that are not finite have many causes; the verdict does not say which.",
    ),
    Pattern(
        "values-wrong",
        "wrong values",
        r"^incorrect output$",
        kinds=("value.mismatch",),
        nothing="Wrong values teach through precision and shapes only; the verdict says neither.",
    ),
    Pattern(
        "unsteady",
        "the same question, another answer",
        kinds=("run.unstable", "run.not_bitwise"),
        lesson="Do not let programs race for one address or read memory that nobody has written; use atomics or one "
        "writer for each element, and start from zeros where sums begin.",
    ),
    Pattern(
        "library-instead",
        "the library does the work",
        kinds=("library.share",),
        nothing="A matter of the problem's policy, not of how kernels are written.",
    ),
)
