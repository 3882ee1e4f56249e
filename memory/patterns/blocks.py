"""Blocks of values: extents, shapes, products, reductions."""

from __future__ import annotations

from memory.patterns.values import Pattern

PATTERNS = (
    Pattern(
        "arange-power-of-two",
        "a tl.arange of a length that is no power of two",
        r"arange's range must be a power of 2",
        lesson="Do not give tl.arange a length that is no power of two; round it up with triton.next_power_of_2 on the "
        "host and mask the rest.",
        operator="tl.arange",
    ),
    Pattern(
        "arange-constant",
        "a tl.arange of a value that is not constant",
        r"arange's arguments must be of type tl\.constexpr",
        lesson="Do not give tl.arange a value that is known only at run time; make the block's extent a tl.constexpr "
        "argument and mask with the real length.",
        operator="tl.arange",
    ),
    Pattern(
        "shape-power-of-two",
        "a block whose extent is no power of two",
        r"Shape element \d+ must be a power of 2",
        lesson="Do not make a block whose extents are not powers of two; round them up and mask the rest.",
    ),
    Pattern(
        "shape-constant",
        "a block whose shape is not constant",
        r"Shape element \d+ must have type `constexpr",
        lesson="Do not make a block of a shape that is known only at run time; take its extents from tl.constexpr "
        "arguments.",
    ),
    Pattern(
        "block-too-large",
        "a block of too many elements",
        r"numel \(\d+\) exceeds triton maximum tensor numel",
        lesson="Do not make one block of more than 1048576 elements; walk over the data with a loop of smaller blocks.",
    ),
    Pattern(
        "block-shapes",
        "blocks whose shapes do not fit",
        r"Cannot make_shape_compatible|incompatible dimensions at index",
        lesson="Do not combine blocks of different extents; give both the same shape, adding axes with [:, None] and "
        "[None, :], masks included.",
    ),
    Pattern(
        "axis-out-of-range",
        "an axis that the block does not have",
        r"invalid axis -?\d+\. Expected|axis -?\d+ out of bounds for shape",
        lesson="Do not name an axis that a block does not have: a one-dimensional block has axis 0 only.",
    ),
    Pattern(
        "reduce-arguments",
        "a reduction of two operands",
        r"create_reduce\(\): incompatible function arguments",
        lesson="Do not give tl.max or tl.sum a second operand in place of the axis; use tl.maximum(a, b) for two "
        "values.",
        operator="tl.reduce",
    ),
    Pattern(
        "reshape-elements",
        "a reshape that changes the number of elements",
        r"reshape\(\) cannot change total number of elements",
        lesson="Do not reshape a block to another number of elements; the product of the extents stays the same.",
        operator="tl.reshape",
    ),
    Pattern(
        "transpose-rank",
        "a transpose of one dimension",
        r"tl\.trans invoked with a 0- or 1-dimensional",
        lesson="Do not transpose a one-dimensional block; add an axis with [:, None] or [None, :] instead.",
        operator="tl.trans",
    ),
    Pattern(
        "dot-too-small",
        "a tl.dot of blocks that are too small",
        r"Input shapes should have M >= \d+|(?:All non-batch values|both input tensors).*must be >= \d+",
        lesson="Do not give tl.dot blocks with fewer than 16 elements along the summed dimension; pad the block, or "
        "multiply and use tl.sum.",
        operator="tl.dot",
    ),
    Pattern(
        "dot-inner-extents",
        "a tl.dot of blocks whose inner extents differ",
        r"must have equal reduction dimensions|are not compatible for matmul",
        lesson="Give tl.dot blocks of shapes (M, K) and (K, N): the inner extents are equal.",
        operator="tl.dot",
    ),
    Pattern(
        "dot-ranks",
        "a tl.dot of blocks that are no matrices",
        r"must have equal ranks >= 2|Both inputs must be either 2D or 3D",
        lesson="Do not give tl.dot one-dimensional blocks; add axes to make matrices, or multiply and use tl.sum.",
        operator="tl.dot",
    ),
    Pattern(
        "dot-dtypes",
        "a tl.dot of two dtypes",
        r"Both operands must be same dtype|First input \(\w+\) and second input \(\w+\) must have the same dtype",
        lesson="Do not give tl.dot operands of two dtypes; convert one of them first.",
        operator="tl.dot",
    ),
    Pattern(
        "dot-dtype-unsupported",
        "a tl.dot of a dtype it does not know",
        r"Unsupported [lr]hs dtype",
        lesson="Do not give tl.dot integers wider than int8; convert the blocks to a floating dtype, or multiply and "
        "use "
        "tl.sum.",
        operator="tl.dot",
    ),
    Pattern(
        "dot-precision",
        "an input precision that tl.dot does not know",
        r"input_precision must be one of",
        lesson='Give tl.dot an input_precision that it knows, such as "ieee" or "tf32x3"; the names of dtypes are '
        "none.",
        operator="tl.dot",
        versioned=True,
    ),
    Pattern(
        "float-function-of-integers",
        "a floating function on integers",
        r"Expected dtype \['fp32', 'fp64'\] but got",
        lesson="Do not give tl.exp, tl.log, tl.sqrt and their like integers or half precision; convert with "
        "x.to(tl.float32) first.",
    ),
    Pattern(
        "operand-of-no-type",
        "None used as a value",
        r"'NoneType' object has no attribute 'type'|unsupported operand type\(s\) for .*'NoneType'",
        lesson="Do not compute with None: leave an optional tensor out of the kernel by a tl.constexpr flag, and check "
        "for None on the host.",
    ),
)
