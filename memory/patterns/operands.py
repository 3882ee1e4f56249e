"""Errors of what a kernel works on: blocks, pointers, arguments of a launch."""

from __future__ import annotations

from memory.patterns.known import FUNCTIONS, Pattern

BLOCKS = (
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
        "use tl.sum.",
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


POINTERS = (
    Pattern(
        "pointer-arithmetic",
        "arithmetic that pointers do not have",
        r"invalid operands of type (?:pointer<|\S+ and pointer<)",
        lesson="Do not add floats to a pointer or multiply it; a pointer takes integer offsets only, so keep strides "
        "and indices integers.",
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
        "compute with integers.",
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


LAUNCHING = (
    Pattern(
        "launch-argument-missing",
        "a launch lacks an argument",
        r"dynamic_func\(\) missing \d+ required positional argument",
        lesson="Pass every argument of a kernel at its launch, each tl.constexpr by its name as well, unless the "
        "autotuner sets it.",
    ),
    Pattern(
        "launch-argument-twice",
        "a launch gives an argument twice",
        r"got multiple values for argument",
        lesson="Do not pass one argument of a kernel both by position and by name: pass tensors and sizes by position, "
        "and each tl.constexpr by name once.",
    ),
    Pattern(
        "launch-argument-unknown",
        "a launch names an argument that the kernel does not have",
        r"Keyword argument \w+ was specified but unrecognised|dynamic_func\(\) got an unexpected keyword argument",
        lesson="Do not pass, or tune, an argument that the kernel does not declare; besides those only num_warps, "
        "num_stages and their like are known.",
    ),
    Pattern(
        "launch-argument-type",
        "a launch passes what is no tensor and no number",
        r"failed to specialize argument of type|'(?:list|dict|tuple|numpy\.ndarray)' object has no attribute 'type'",
        lesson="Do not pass lists, dtypes, arrays of numpy or modules to a kernel; pass tensors and numbers, and the "
        "rest as tl.constexpr.",
    ),
    Pattern(
        "grid-not-a-tuple",
        "a grid that is no tuple",
        r"object of type 'int' has no len\(\)",
        lesson="Do not give a grid as a bare number; write kernel[(blocks,)](...).",
    ),
    Pattern(
        "grid-not-whole",
        "a grid that holds no whole numbers",
        r"'(?:tuple|float|list)' object cannot be interpreted as an integer"
        r"|int\(\) argument must be .*not '(?:tuple|list)'",
        lesson="Give a grid, and every size, as whole numbers: use triton.cdiv or // rather than /, and do not put a "
        "tuple inside the tuple.",
    ),
    Pattern(
        "grid-function",
        "a grid function that takes no arguments",
        r"<lambda>\(\) takes 0 positional arguments but 1 was given",
        lesson="Let a grid function take the dictionary of the kernel's constants: lambda meta: (...).",
    ),
    Pattern(
        "warps-power-of-two",
        "a number of warps that is no power of two",
        r"num_warps must be a power of 2",
        lesson="Do not launch with a num_warps that is no power of two; use 1, 2, 4, 8 or 16.",
    ),
    Pattern(
        "too-many-threads",
        "more threads than a block may have",
        r"out of (?:resource: )?threads",
        lesson="Do not ask for more than 1024 threads in a block: at most 32 warps of 32 threads.",
    ),
    Pattern(
        "shared-memory",
        "more shared memory than the GPU has",
        r"out of (?:resource: )?shared memory",
        lesson="Do not stage more in shared memory than a block of this GPU may use; make the tiles of tl.dot smaller, "
        "or set fewer num_stages.",
        by_arch=True,
    ),
    Pattern(
        "registers",
        "more registers than the GPU has",
        r"too many resources requested for launch|out of (?:resource: )?(?:registers|tensor memory)",
        lesson="Do not keep more in registers than a block of this GPU may use; use smaller blocks or fewer warps.",
        by_arch=True,
    ),
    Pattern(
        "autotune-conflict",
        "a launch sets what the autotuner sets",
        r"Conflicting meta-parameters|run\(\) got multiple values for keyword argument",
        lesson="Do not pass at the launch what the configurations of triton.autotune set; leave those arguments to it.",
    ),
    Pattern(
        "autotune-key",
        "an autotune key that is no argument",
        r"ValueError: '\w+' is not in list",
        lesson="Name in the key of triton.autotune only arguments that the kernel declares and that are sizes or "
        "tensors.",
    ),
    Pattern(
        "autotune-order",
        "decorators in the wrong order",
        r"'function' object has no attribute 'arg_names'",
        lesson="Put @triton.autotune and @triton.heuristics above @triton.jit, not below it.",
    ),
    Pattern(
        "autotune-config",
        "a configuration with arguments that triton.Config does not have",
        r"Config\.__init__\(\) got an unexpected keyword argument|'Config' object has no attribute '(?P<name>\w+)'",
        lesson="Give triton.Config a dictionary of the kernel's constants and num_warps, num_stages; its constants are "
        "in its attribute kwargs.",
        of="triton.Config",
    ),
    Pattern(
        "keyword-unknown",
        "a keyword argument that the function does not have",
        r"(?:(?P<name>\w+)\(\) )?got an unexpected keyword argument",
        lesson="Do not pass {name}() a keyword argument that it does not have; keep to its documented signature.",
        plain="Do not pass a function a keyword argument that it does not have; keep to its documented signature.",
        known=FUNCTIONS,
    ),
    Pattern(
        "constructor-arguments",
        "ModelNew takes other arguments than Model",
        r"ModelNew\.__init__\(\) (?:missing|takes|got)",
        lesson="Let ModelNew.__init__ take exactly the arguments that the reference's Model.__init__ takes.",
    ),
    Pattern(
        "argument-missing",
        "a call lacks an argument",
        r"(?:(?P<name>\w+)\(\) )?missing (?:a|\d+) required (?:positional |keyword-only )?arguments?",
        lesson="Do not call {name}() without all of its arguments; keep to its documented signature.",
        plain="Do not call a function without all of its arguments; keep to its documented signature.",
        known=FUNCTIONS,
    ),
)
