"""Errors of torch on the host side of a candidate."""

from __future__ import annotations

from memory.patterns.values import Pattern

PATTERNS = (
    Pattern(
        "matmul-shapes",
        "matrices whose shapes do not fit",
        r"mat1 and mat2 shapes cannot be multiplied|Expected size for first two dimensions of batch\d tensor",
        lesson="Check which way a weight lies before multiplying: torch.nn.Linear keeps (out, in), so x @ weight.t().",
        operator="torch.matmul",
    ),
    Pattern(
        "sizes-mismatch",
        "tensors whose sizes do not broadcast",
        r"The size of tensor a \(\d+\) must match|Sizes of tensors must match except in dimension",
        lesson="Do not combine tensors whose sizes differ in a dimension where neither is 1; take sizes from the "
        "inputs "
        "and add axes on purpose.",
    ),
    Pattern(
        "view-strides",
        "a view of memory that is not contiguous",
        r"view size is not compatible with input tensor's size and stride",
        lesson="Do not call .view on a tensor that may not be contiguous; use .reshape, or .contiguous() first.",
    ),
    Pattern(
        "view-elements",
        "a view of another number of elements",
        r"shape '\[[^\]]*\]' is invalid for input of size",
        lesson="Do not view or reshape a tensor to another number of elements; compute the shape from the input's own.",
    ),
    Pattern(
        "expand-sizes",
        "expands a dimension that is not 1",
        r"The expanded size of the tensor \(\d+\) must match the existing size",
        lesson="Do not expand a dimension whose size is not 1; only such a dimension can be repeated without a copy.",
    ),
    Pattern(
        "dimension-range",
        "a dimension that the tensor does not have",
        r"Dimension out of range",
        lesson="Do not name a dimension that a tensor does not have; count from the end with -1 and -2 where the "
        "rank may "
        "differ.",
    ),
    Pattern(
        "operand-dtypes",
        "operands of two dtypes",
        r"to have the same dtype, but got|Input type \(\S+\) and (?:weight|bias) type \(\S+\) should be the same"
        r"|\w+ did not match \w+|expected scalar type \w+ but found",
        lesson="Do not mix dtypes in one operation of torch; keep parameters and inputs in the reference's dtype, and "
        "convert inside the kernel.",
    ),
    Pattern(
        "out-dtype",
        "an out= tensor of the wrong dtype",
        r"Expected out tensor to have dtype",
        lesson="Do not give an operation of torch an out= tensor of another dtype; allocate it in the result's dtype.",
    ),
    Pattern(
        "out-gradient",
        "an out= tensor where gradients are recorded",
        r"functions with out=\.\.\. arguments don't support automatic differentiation",
        lesson="Do not use out= with parameters outside of torch.no_grad(); use the plain form, or no_grad.",
    ),
    Pattern(
        "leaf-in-place",
        "writes into a parameter",
        r"a (?:view of a )?leaf [Vv]ariable that requires grad is being used in an in-place operation",
        lesson="Do not write into a parameter in place; make a new tensor.",
    ),
    Pattern(
        "numpy-gradient",
        "numpy of a tensor with a gradient",
        r"Can't call numpy\(\) on Tensor that requires grad",
        lesson="Do not turn tensors into numpy arrays in forward; stay with torch and the kernel.",
    ),
    Pattern(
        "two-devices",
        "tensors on two devices",
        r"Expected all tensors to be on the same device|Pointer argument .* cannot be accessed from Triton"
        r"|AssertionError: Tensors must be on CUDA",
        lesson="Do not leave a tensor on another device than the inputs; allocate with torch.empty_like or on the "
        "device of the input, in forward.",
    ),
    Pattern(
        "layer-norm-shape",
        "a normalised shape that is not the input's last",
        r"Given normalized_shape=",
        lesson="Do not normalise over a shape that is not the input's last dimensions; take it from the input.",
        operator="torch.layer_norm",
    ),
    Pattern(
        "conv-input",
        "a convolution of an input of the wrong rank",
        r"Expected \d+D .* input to conv|expected input\[[^\]]*\] to have \d+ channels",
        lesson="Do not give a convolution an input of another rank or number of channels than its weight says; add "
        "the missing axes first.",
        operator="torch.conv",
    ),
    Pattern(
        "size-not-whole",
        "a size that is no whole number",
        r"argument 'size' (?:must be tuple of ints|failed to unpack)",
        lesson="Give sizes as flat tuples of whole numbers; do not nest them, and divide with //.",
    ),
    Pattern(
        "endless-recursion",
        "a function that calls itself without end",
        r"^RecursionError",
        lesson="Do not let forward call itself; compute the result there.",
    ),
    Pattern(
        "own-assertion",
        "an assertion of the candidate's own",
        r"^AssertionError(?::|$)",
        nothing="A check that the kernel itself makes: the error does not say what is wrong with the kernel.",
    ),
    Pattern(
        "index-range",
        "an index past the end of a list",
        r"^IndexError: (?:list|tuple) index out of range",
        nothing="The error does not say of which list, so it holds no lesson about kernels.",
    ),
)
