"""Names that Triton does not have, or not there."""

from __future__ import annotations

from memory.patterns.values import Pattern

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
PATTERNS = (
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
        nothing="The attribute is the candidate's own: what its class lacks says nothing of other kernels.",
    ),
)
