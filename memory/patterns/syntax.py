"""What Python can say and a kernel cannot."""

from __future__ import annotations

from memory.patterns.values import Pattern

_NODE = r"unsupported AST node type: "

PATTERNS = (
    Pattern(
        "loop-exit",
        "break or continue in a kernel",
        _NODE + r"(?:Break|Continue)\b",
        lesson="Do not use break or continue inside a Triton kernel; compute a mask and apply it to what follows, or "
        "bound the loop by its range.",
    ),
    Pattern(
        "comprehension",
        "a comprehension in a kernel",
        _NODE + r"(?:ListComp|GeneratorExp|SetComp|DictComp)\b|only tuple comprehensions are supported",
        lesson="Do not use a list comprehension or a list of tensors inside a Triton kernel; use one block with one "
        "more dimension, or a loop that accumulates.",
    ),
    Pattern(
        "lambda-in-kernel",
        "a lambda in a kernel",
        _NODE + r"Lambda\b|'function' object has no attribute '(?:fn|reduce)'",
        lesson="Do not write a lambda inside a Triton kernel or give one to a reduction; define a @triton.jit function "
        "and name it.",
    ),
    Pattern(
        "host-syntax",
        "Python syntax that kernels do not have",
        _NODE + r"(?:Try|Raise|Delete|Global|Import|ImportFrom|NamedExpr|Dict|Set|With|ClassDef|Starred|Yield|Await)\b",
        lesson="Do not use try, raise, del, global, import, with, :=, dictionaries or sets inside a Triton kernel; do "
        "that part on the host, before the launch.",
    ),
    Pattern(
        "syntax-unsupported",
        "syntax that Triton does not compile",
        _NODE + r"\w+",
        lesson="Inside a Triton kernel write only assignments, arithmetic, if, for over range and while; keep every "
        "other statement of Python on the host.",
    ),
    Pattern(
        "chained-comparison",
        "a chained comparison in a kernel",
        r"simultaneous multiple comparison is not supported",
        lesson="Do not chain comparisons inside a Triton kernel; write (low <= i) & (i < high).",
    ),
    Pattern(
        "branch-on-block",
        "an if on a block of values",
        r"Boolean value of Tensor with more than one value is ambiguous",
        lesson="Do not branch with if on a block of values; choose element by element with tl.where, and branch on "
        "scalars only.",
    ),
    Pattern(
        "return-in-loop",
        "return inside a loop of a kernel",
        r"the loop body should only have one block|Cannot have `return` statements inside",
        lesson="Do not return from inside a loop or a branch of a Triton kernel; let it run to its end under a mask.",
    ),
    Pattern(
        "loop-carried-type",
        "a variable changes its type or shape in a loop",
        r"Loop-carried variable \w+ has initial type",
        lesson="Do not let a variable change its type or shape from one pass of a loop to the next; start it as "
        "tl.zeros with the shape and dtype that the loop assigns.",
    ),
    Pattern(
        "loop-carried-none",
        "a variable is None before a loop",
        r"Loop carried variable \w+ is not a triton value",
        lesson="Do not start a variable of a loop as None; give it a Triton value of its final shape and dtype, such "
        "as tl.zeros.",
    ),
    Pattern(
        "branch-types",
        "two branches leave different types",
        r"Mismatched type for \w+ between then block|Ternary expression with dynamic condition has inconsistent types"
        r"|but the (?:then|else) block redefines it",
        lesson="Give a variable the same type and shape in both branches of an if, or use tl.where on blocks.",
    ),
    Pattern(
        "number-of-tensor",
        "a Triton tensor turned into a Python number",
        r"(?:float|int)\(\) argument must be .*not 'tensor'|can only convert an array of size 1 to a Python scalar",
        lesson="Do not call float() or int() on a Triton tensor; convert with x.to(tl.float32) or x.to(tl.int32).",
    ),
    Pattern(
        "length-of-tensor",
        "the length of a Triton tensor asked for",
        r"object of type 'tensor' has no len\(\)",
        lesson="Do not ask a Triton tensor for its len(); pass the length in as an argument.",
    ),
    Pattern(
        "loop-bounds",
        "a loop over bounds that are no integers",
        r"For loop bounds and step must all be ints",
        lesson="Give range in a kernel integers only: convert a bound with .to(tl.int32), and load a scalar, not a "
        "block, for it.",
    ),
    Pattern(
        "not-jit",
        "calls something that is not compiled",
        r"Unsupported function referenced",
        lesson="Do not call torch or a plain Python function inside a kernel; decorate helpers with @triton.jit, and "
        "use functions of tl.",
    ),
    Pattern(
        "jit-outside",
        "a function of kernels called on the host",
        r"Cannot call @triton\.jit'd outside of the scope of a kernel",
        lesson="Do not call a @triton.jit function, or a function of tl, from the host as it is; launch a kernel with "
        "kernel[grid](...), and use triton.cdiv and torch on the host.",
    ),
    Pattern(
        "builder-missing",
        "a function of tl used outside of a kernel",
        r"Did you forget to add @triton\.jit",
        lesson="Do not use operators or functions of tl where Triton is not compiling: not in plain Python helpers, "
        "and not through host functions such as triton.cdiv on kernel values; use tl.cdiv there.",
    ),
    Pattern(
        "text-in-kernel",
        "text made of values in a kernel",
        r"Cannot evaluate f-string containing non-constexpr|'str' object has no attribute 'type'",
        lesson="Do not build text from values inside a kernel; print with tl.device_print, and keep text to constants.",
    ),
    Pattern(
        "attribute-assignment",
        "sets an attribute in a kernel",
        r"Attribute assignment is not supported in triton",
        lesson="Do not set an attribute inside a kernel; use plain variables.",
    ),
    Pattern(
        "markdown-fences",
        "Markdown left in the module",
        r"still holds Markdown fences",
        lesson="Send only the Python code of the module, without Markdown fences inside it.",
    ),
    Pattern(
        "source-syntax",
        "the module is no valid Python",
        r"^SyntaxError|^IndentationError|^TabError",
        kinds=("source.syntax", "source.binary", "source.too_large"),
        nothing="A slip in Python's own syntax: there is nothing about kernels in it.",
    ),
)
