"""Errors in the language of kernels: names that do not exist, and Python that kernels do not have."""

from __future__ import annotations

from memory.patterns.known import Pattern

_INSTEAD = {
    "": "use a function that the installed Triton has, or compute it from those.",
    "any": "take the maximum of the mask as an integer, or compare its sum with zero.",
    "all": "take the minimum of the mask as an integer.",
    "argsort": "sort the keys with tl.sort and compute the indices another way.",
    "constant": "write the number itself, or tl.full(shape, value, dtype) for a block.",
    "div": "use the operators / and // instead.",
    "eq": "use the operator == instead.",
    "float8": "name the format, as in tl.float8e4nv.",
    "gelu": "compute it with tl.erf or tl.exp.",
    "libdevice": "import it with `from triton.language.extra import libdevice`.",
    "log1p": "use libdevice.log1p from triton.language.extra, or tl.log(1 + x).",
    "matmul": "use tl.dot on two blocks instead.",
    "mean": "divide tl.sum by the number of elements.",
    "mod": "use the operator % instead.",
    "mul": "use the operator * instead.",
    "neg": "use the unary minus instead.",
    "ones": "use tl.full(shape, 1, dtype) instead.",
    "ones_like": "use tl.full with the shape and dtype instead.",
    "pow": "use libdevice.pow from triton.language.extra, or multiply.",
    "relu": "use tl.maximum(x, 0) instead.",
    "round": "use libdevice.rint from triton.language.extra, or tl.floor(x + 0.5).",
    "sub": "use the operator - instead.",
    "tanh": "use libdevice.tanh from triton.language.extra, or 2 * tl.sigmoid(2 * x) - 1.",
}
_OF_TENSOR = {
    "": "use functions of tl on it; its shape and strides have to be passed in as arguments.",
    "astype": "convert with x.to(dtype).",
    "contiguous": "nothing has to be done about its layout.",
    "exp": "use tl.exp(x).",
    "float": "convert with x.to(tl.float32).",
    "mean": "divide tl.sum(x, axis) by the number of elements.",
    "relu": "use tl.maximum(x, 0).",
    "size": "pass the extent in as an argument.",
    "sqrt": "use tl.sqrt(x).",
    "stride": "pass the strides in as arguments.",
    "transpose": "use tl.trans(x).",
}
_BUILTINS = {
    "abs": "use tl.abs.",
    "all": "combine masks with & instead.",
    "any": "combine masks with | instead.",
    "enumerate": "loop over range and count yourself.",
    "pow": "multiply, or use libdevice.pow from triton.language.extra.",
    "round": "use libdevice.rint from triton.language.extra.",
    "sorted": "use tl.sort.",
    "sum": "use tl.sum with an axis.",
    "zip": "loop over range instead.",
}
# Modules that a lesson may name: a kernel can raise an error of any words itself.
_OF_TRITON = (
    r"(?P<module>triton\.language(?:\.(?:math|random|standard|core|semantic|extra(?:\.(?:cuda\.|hip\.)?libdevice)?))?)"
)
_OF_TORCH = (
    r"(?P<module>torch(?:\.(?:nn(?:\.(?:functional|init|utils|modules|parameter))?|cuda(?:\.amp)?|amp|autograd|backends"
    r"(?:\.(?:cuda|cudnn|mkldnn))?|compiler|fft|func|jit|library|linalg|ops(?:\.aten)?|random|sparse|special|utils))?)"
)
NAMES = (
    Pattern(
        "tl-missing",
        "a name that triton.language does not have",
        rf"module '(?:{_OF_TRITON}|triton\.language\.[\w.]+)' has no attribute '(?P<name>\w+)'",
        lesson="Do not use {module}.{name}, which this Triton does not have; {advice}",
        plain="Use only names that triton.language of the installed Triton has.",
        versioned=True,
        advice=_INSTEAD,
        of="{module}",
    ),
    Pattern(
        "triton-missing",
        "a name that triton does not have",
        r"(?:module '(?P<module>triton(?:\.\w+)*)' has no attribute '|cannot import name ')(?P<name>\w+)'"
        r"(?! from '(?!triton))(?: from '(?P<source>triton(?:\.\w+)*)')?",
        lesson="Do not import or use {name} of triton, which this Triton does not have; look for what it has instead.",
        plain="Import and use only names that the installed Triton has.",
        versioned=True,
        of="{module}",
    ),
    Pattern(
        "torch-missing",
        "a name that torch does not have",
        rf"(?:module '(?:{_OF_TORCH}|torch\.[\w.]+)' has no attribute '|cannot import name '(?=\w+' from 'torch\b))"
        r"(?P<name>\w+)'(?: from '(?P<source>torch[\w.]*)')?",
        lesson="Do not use {module}.{name}, which torch does not have; use a function that it documents.",
        plain="Use only functions that torch documents.",
        of="{module}",
    ),
    Pattern(
        "model-class-missing",
        "the module defines no ModelNew",
        r"has no attribute 'ModelNew'|`ModelNew` is not defined|must define a class `ModelNew`",
        kinds=("source.no_model",),
        lesson="Define class ModelNew at the top level of the module; do not leave it out, rename it or nest it.",
    ),
    Pattern(
        "import-missing",
        "imports a module that is not there",
        r"ModuleNotFoundError: No module named",
        lesson="Import nothing but torch, triton and Python's standard library; other packages are not installed.",
    ),
    Pattern(
        "tensor-power",
        "** on a Triton tensor",
        r"'tensor' object has no attribute '__r?pow__'|unsupported operand type\(s\) for \*\* or pow\(\): 'tensor'",
        lesson="Do not raise a Triton tensor to a power with **; multiply it by itself, or use libdevice.pow from "
        "triton.language.extra.",
    ),
    Pattern(
        "tensor-product",
        "@ on a Triton tensor",
        r"'MatMult' object has no attribute|unsupported operand type\(s\) for @: 'tensor'",
        lesson="Do not multiply Triton tensors with @; use tl.dot on two blocks.",
        operator="tl.dot",
    ),
    Pattern(
        "tensor-index",
        "indexes a Triton tensor like an array",
        r"unsupported tensor index|__setitem__ is not supported|'tensor' object does not support item assignment"
        r"|'Subscript' object has no attribute 'id'|'tensor' object has no attribute 'at'",
        lesson="Do not index, slice or assign into a Triton tensor by position: only None and : may stand in its "
        "brackets. Load elements through pointers, or choose them with tl.where and a reduction.",
    ),
    Pattern(
        "tensor-attribute",
        "a Triton tensor has no such attribute",
        r"'tensor' object has no attribute '(?P<name>[a-z]\w*)'",
        lesson="Do not use the attribute {name} of a Triton tensor, which it does not have; {advice}",
        plain="Do not use torch's methods on a Triton tensor; use functions of tl on it.",
        advice=_OF_TENSOR,
        known=frozenset(_OF_TENSOR)
        | {"item", "device", "clone", "sum", "max", "view_as", "type_as", "masked_fill", "log"},
        of="triton.language.tensor",
    ),
    Pattern(
        "dtype-called",
        "calls a Triton dtype",
        r"'dtype' object is not callable",
        lesson="Do not call a Triton dtype such as tl.float32(x); convert with x.to(tl.float32), and write constants "
        "as plain numbers.",
    ),
    Pattern(
        "dtype-not-triton",
        "a dtype that is not Triton's",
        r"(?:'str' object|'torch\.dtype' object|type object '(?:bool|complex|dtype|float|int|str)') has no attribute "
        r"'(?:scalar|is_\w+|primitive\w*)'",
        lesson="Do not give Triton a dtype of torch, of Python or as text; use tl.float32 and its like.",
    ),
    Pattern(
        "builtin-in-kernel",
        "a Python built-in that kernels do not have",
        r"NameError: (?:name ')?(?P<name>abs|all|any|enumerate|pow|round|sorted|sum|zip)'? is not defined"
        r"|bad operand type for (?P<op>abs)\(\): 'tensor'",
        lesson="Do not call Python's {name}() inside a kernel; {advice}",
        plain="Do not call Python's abs() inside a kernel; use tl.abs.",
        advice=_BUILTINS,
    ),
)
UNDEFINED = (  # in words that a more precise error has, too: looked at later
    Pattern(
        "global-in-kernel",
        "a kernel reads a global variable",
        r"Cannot access global variable \w+ from within",
        lesson="Do not read a global variable inside a kernel; pass it in as an argument, or make it a "
        "tl.constexpr(value) at the module's top level.",
    ),
    Pattern(
        "name-undefined",
        "a name that is not defined",
        r"NameError: (?:name ')?\w+'? is not defined|NameError: free variable|UnboundLocalError",
        lesson="Define every name before it is used, also in kernels, where a name that is set in one branch of an if "
        "only does not exist after it.",
    ),
    Pattern(
        "model-attribute",
        "ModelNew has no such attribute",
        r"'ModelNew' object has no attribute",
        nothing="The attribute belongs to the candidate's own class, so it says nothing about other kernels.",
    ),
)


_NODE = r"unsupported AST node type: "

SYNTAX = (
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
        kinds=("source.syntax", "source.binary", "source.encoding", "source.too_large"),
        nothing="A Python syntax error, which is not about kernels.",
    ),
)
