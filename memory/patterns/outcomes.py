"""Errors at run time: limits of the machine, verdicts of the judge, torch on the host."""

from __future__ import annotations

from memory.patterns.known import Pattern

_REPLY = "It is about the reply, not about a kernel: the prompt says how to answer."

MACHINE = (
    Pattern(
        "time-limit",
        "time ran out",
        r"^(?:Subprocess )?[Tt]ime(?:d )?-?\s?out\b|^TimeoutError",
        kinds=("run.timeout", "load.timeout", "compile.timeout", "timed_out"),
        unfit="Time ran out: the machine may have been busy.",
    ),
    Pattern(
        "memory-limit",
        "memory ran out",
        r"out of memory|can't allocate memory|[Cc]annot allocate memory|^MemoryError",
        kinds=("run.oom", "load.oom", "out_of_memory"),
        unfit="Memory ran out: another process may have held it.",
    ),
    Pattern(
        "worker-lost",
        "no worker brought it to an end",
        kinds=("lost", "lost.attempts", "cancelled"),
        unfit="A worker was lost: the kernel was not judged.",
    ),
    Pattern(
        "process-died",
        "the candidate's process ended",
        r"ended the candidate's process",
        kinds=("run.died", "load.died"),
        nothing="The process ended without a message, so the cause is unknown.",
    ),
    Pattern(
        "device-unsupported",
        "this device cannot run it",
        kinds=("run.unsupported", "compile.incomplete", "time.nothing_launched", "unsupported"),
        unfit="The judge's device does not support it: the kernel may be correct on another device.",
    ),
    Pattern(
        "toolchain-broken",
        "the machine is broken, full or badly set up",
        r"no kernel image is available|unsupported toolchain|CUDA driver version is insufficient|libcuda\.so"
        r"|No CUDA GPUs are available|ptxas fatal|Failed to find C compiler"
        r"|No such file or directory: '?\S*(?:ptxas|gcc)\b"
        r"|No space left on device|Disk quota exceeded|Read-only file system|Permission denied: \S*\.triton\b"
        r"|Too many open files|can't start new thread|uncorrectable ECC|GPU is lost|fallen off the bus"
        r"|busy or unavailable"
        r"|CUDA (?:driver )?error: (?:unknown error|initialization error|system not yet initialized)"
        r"|CU(?:BLAS|DNN)_STATUS_(?:ALLOC_FAILED|NOT_INITIALIZED)|^(?:BrokenPipe|ConnectionReset|ConnectionRefused)Error",
        unfit="The machine was broken, full or badly configured: no kernel could have passed.",
    ),
    Pattern(
        "problem-refused",
        "the problem itself failed",
        r"^the reference",
        kinds=(
            "problem.raises",
            "problem.memory",
            "problem.timeout",
            "problem.unsupported",
            "problem.tampers",
            "problem.no_gradient",
        ),
        unfit="The problem's own code failed, not the kernel.",
    ),
    Pattern(
        "time-doubtful",
        "a time that could not be believed",
        kinds=("time.mismatch", "time.wrong_output", "compile.hidden"),
        unfit="The measured time is not plausible: such a kernel is no evidence.",
    ),
    Pattern(
        "tampered",
        "the harness was touched",
        kinds=("tamper.channel", "tamper.harness", "kernel.decoy"),
        unfit="The kernel cheated: it is no evidence.",
    ),
    Pattern(
        "compiler-silent",
        "Triton refused it and the report leaves out why",
        r"^(?:triton\.\S+\.)?(?:CompilationError|CompileTimeAssertionFailure|PTXASError)$"
        r"|^[Cc]ompil(?:e|ation) failed\.?$",
        nothing="The report ends before the cause.",
    ),
    Pattern(
        "reply-without-kernel",
        "the reply holds no usable kernel",
        kinds=(
            "proposal.no_code",
            "proposal.no_patch",
            "proposal.several",
            "proposal.unclosed",
            "proposal.binary",
            "proposal.too_large",
            "proposal.cut_off",
            "proposal.refused",
        ),
        nothing=_REPLY,
    ),
    Pattern(
        "patch-does-not-apply",
        "the patches do not apply",
        kinds=("proposal.patch_mismatch", "proposal.bad_patch"),
        nothing=_REPLY,
    ),
    Pattern(
        "kernel-unchanged",
        "the reply changes nothing",
        kinds=("proposal.unchanged", "proposal.repeated"),
        nothing=_REPLY,
    ),
    Pattern(
        "nothing-proposed",
        "the built-in proposer had nothing to propose",
        kinds=("proposal.exhausted", "proposal.no_graph", "proposal.unsupported_graph"),
        nothing="There is no kernel to learn from.",
    ),
    Pattern(
        "nothing-recorded",
        "the recording holds no further kernel",
        kinds=("proposal.not_recorded",),
        unfit="The recording has no kernel for this step.",
    ),
)


ANSWERS = (
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
        "tuples and lists.",
    ),
    Pattern(
        "input-changed",
        "forward changes its input",
        kinds=("state.input_changed", "state.alias"),
        lesson="Do not write into the inputs or return them as outputs; write to a new tensor.",
    ),
    Pattern(
        "kept-output",
        "forward returns memory that the model keeps",
        kinds=("state.kept_output",),
        lesson="Allocate every output anew in forward; do not return a parameter, a buffer, or the output buffer of an "
        "earlier call.",
    ),
    Pattern(
        "no-gradient",
        "forward returns what has no gradient",
        kinds=("structure.no_gradient",),
        lesson="Where gradients are asked for, launch kernels in the forward and backward of a torch.autograd.Function "
        "and return what its apply() returns.",
    ),
    Pattern(
        "grad-accumulated",
        "forward or backward writes to grad",
        kinds=("state.grad",),
        lesson="Return gradients from backward of a torch.autograd.Function; do not call .backward() and do not assign "
        "to the grad of inputs or parameters.",
    ),
    Pattern(
        "stale-parameters",
        "forward uses parameters that have been replaced",
        kinds=("state.stale_params",),
        lesson="Do not derive weights in __init__ or keep them between calls; do it in forward, or in prepare(), "
        "which is called after every change.",
    ),
    Pattern(
        "buffers-changed",
        "buffers are not what the reference leaves",
        kinds=("state.buffers",),
        lesson="Update running statistics and other buffers exactly as the reference does, or leave them alone where "
        "it does.",
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
        "keep them in float32.",
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
        nothing="Only errors of precision or shape can be learned from; the verdict names neither.",
    ),
    Pattern(
        "unsteady",
        "results differ between equal runs",
        kinds=("run.unstable", "run.not_bitwise"),
        lesson="Do not let programs race for one address or read memory that nobody has written; use atomics or one "
        "writer for each element, and start from zeros where sums begin.",
    ),
    Pattern(
        "library-instead",
        "the library does the work",
        kinds=("library.share",),
        nothing="This is a rule of the problem's policy, not of how kernels are written.",
    ),
)


HOST = (
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
        "inputs and add axes on purpose.",
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
        lesson="Do not name a dimension that a tensor does not have; count from the end with -1 and -2 where the rank "
        "may differ.",
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
        nothing="The kernel's own check failed: the error does not say what is wrong with the kernel.",
    ),
    Pattern(
        "index-range",
        "an index past the end of a list",
        r"^IndexError: (?:list|tuple) index out of range",
        nothing="The error does not say which list, so nothing about kernels can be learned from it.",
    ),
)
