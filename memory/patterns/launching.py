"""Launching kernels: arguments, grids, tuning, what a GPU has room for."""

from __future__ import annotations

from memory.patterns.api_names import FUNCTIONS
from memory.patterns.values import Pattern

PATTERNS = (
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
