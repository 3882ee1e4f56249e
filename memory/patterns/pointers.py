"""Pointers, loads, stores, atomics, arithmetic on them."""

from __future__ import annotations

from memory.patterns.values import Pattern

PATTERNS = (
    Pattern(
        "pointer-arithmetic",
        "arithmetic that pointers do not have",
        r"invalid operands of type (?:pointer<|\S+ and pointer<)",
        lesson="Do not add floats to a pointer or multiply it; a pointer takes integer offsets only, so keep strides "
        "and "
        "indices integers.",
    ),
    Pattern(
        "pointers-added",
        "adds two pointers",
        r"cannot add pointers together",
        lesson="Do not add two pointers; load through each of them, and add the values.",
    ),
    Pattern(
        "bits-of-floats",
        "bitwise operators on floats",
        r"invalid operands of type triton\.language\.\w*float\w* and"
        r"|invalid operands of type \w+ and triton\.language\.float",
        lesson="Do not use &, |, ^, << or >> on floating values; compare them first, or convert to an integer dtype.",
    ),
    Pattern(
        "integer-operator-on-floats",
        "an integer operator on floats",
        r"unexpected type (?:fp|bf)\d+",
        lesson="Do not use // or triton.cdiv on floating values in a kernel; divide with / and use tl.floor, or "
        "compute "
        "with integers.",
    ),
    Pattern(
        "not-a-pointer",
        "loads or stores through a value",
        r"Unsupported ptr type .* in `(?P<op>tl\.\w+)`",
        lesson="Do not load or store through a value that has been loaded already; give {op} a pointer, a base plus "
        "offsets.",
        plain="Do not load or store through a value that has been loaded already; use a pointer, a base plus offsets.",
        operator="{op}",
    ),
    Pattern(
        "block-through-scalar",
        "a block through a pointer to one element",
        r"(?:Value|Mask|`?other`?) argument cannot be block type if pointer argument is not a block",
        lesson="Do not load or store a block through a pointer to one element, nor mask one so; add a block of offsets "
        "to the pointer.",
    ),
    Pattern(
        "other-without-mask",
        "`other` without a mask",
        r"`other` cannot be provided without `mask`",
        lesson="Do not give tl.load `other` without `mask`; pass both, or neither.",
        operator="tl.load",
    ),
    Pattern(
        "block-pointer-mask",
        "a mask on a block pointer",
        r"`mask` and `other` arguments cannot be specified for loading block pointers",
        lesson="Do not mask a load through tl.make_block_ptr; use boundary_check and padding_option there.",
        operator="tl.load",
    ),
    Pattern(
        "atomic-dtype",
        "an atomic of a dtype it does not know",
        r"(?P<op>atomic_\w+) does not support \w+",
        lesson="Do not use tl.{op} on a dtype that it does not support; accumulate in float32 or int32.",
        plain="Do not use an atomic on a dtype that it does not support; accumulate in float32 or int32.",
        operator="tl.{op}",
    ),
    Pattern(
        "cache-modifier",
        "a cache modifier that Triton does not know",
        r"Cache modifier \S+ not supported|Eviction policy \S+ not supported",
        lesson='Give loads and stores only cache modifiers that Triton knows, such as ".ca" and ".cg", or none.',
    ),
    Pattern(
        "program-id-axis",
        "a program id beyond the third axis",
        r"program_id axis must be 0, 1, or 2",
        lesson="Do not ask for tl.program_id of an axis above 2; fold further dimensions into one of three and divide.",
        operator="tl.program_id",
    ),
    Pattern(
        "out-of-bounds",
        "reads or writes past the end of a tensor",
        r"out-of-bounds (?:load|store|atomic)|illegal memory access",
        kinds=("run.out_of_bounds", "value.guard_band"),
        lesson="Do not load or store past the end of a tensor; mask every access by the real lengths, along every "
        "axis.",
    ),
    Pattern(
        "misaligned",
        "an address that is not aligned",
        r"misaligned address",
        lesson="Do not tell the compiler of an alignment that a pointer does not have: no tl.multiple_of on offsets "
        "that are not multiples, and no recast to a wider type.",
    ),
    Pattern(
        "device-assert",
        "an index that torch asserts about on the device",
        r"device-side assert triggered",
        lesson="Do not index a tensor with values outside of its extents; keep indices in range before torch uses "
        "them.",
    ),
)
