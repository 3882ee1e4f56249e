"""What a text reaches for and no kernel needs is named; honest texts, those of published searches too, name nothing."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from judge.bench.foreign.reach import reached
from judge.selftest.entries import Corpus, entries
from judge.values.texts import canonical_text

FIXTURES = os.environ.get("ADAEXPLORE_FIXTURES", "")
HEAD = "import torch\nimport triton\n"


@pytest.mark.parametrize(
    "text",
    [
        "import gc",
        "import numpy.ctypeslib",
        "from torch.utils._python_dispatch import TorchDispatchMode",
        "import sys\nsys.modules['x']",
        "torch.sys.modules['x']",
        "from sys import modules",
        "import os\nos.fork()",
        "from judge.bench import names",
        "x = 'judge.bench.subjects'",
        "torch._C.DisableTorchFunction()",
        "(lambda: 0).__globals__",
        "getattr(torch, '_C').x",
        "getattr(torch, 'c' + 'uda')",
        "read = getattr",
        "getattr(*pair)",
        "setattr(torch.cuda, 'Event', object)",
        "torch.cuda.Event = object",
        "cuda = torch.cuda\ncuda.Event = object",
        "del triton.jit",
        "eval('1')",
        "exec('1')",
        "vars(torch)",
        "__import__('gc')",
        "globals()['__builtins__']",
        "globals()['a' + 'b']",
        "k.__class__ = object",
        "class A(type(k)):\n    pass",
        "A = type('A', (), {})",
        "match k:\n    case object(__globals__=g):\n        pass",
        "try:\n    pass\nexcept E as e:\n    e.__traceback__",
        "for n in ('cuda', '_C'):\n    getattr(torch, n).x",
        "for n in ('cuda',):\n    n = n[1:]\n    getattr(torch, n)",
        "sc\u0430le = 1",  # Cyrillic
        "\uff47\uff43 = 1",  # becomes `gc`
        "x = '\u202e'",
        "x.__\uff47lobals__",
        "import sys as s\ns.modules",
        "import sys\ns = sys",
        "c = torch._C\nc.x",
    ],
)
def test_what_no_kernel_needs_is_named(text):
    assert reached(HEAD + text)


def test_a_place_is_told_so_that_it_becomes_one_of_the_text_that_was_sent():
    source = "# above\n\nimport gc\n"
    (told,) = reached(canonical_text(source).text)
    assert canonical_text(source).in_source(told) == "candidate.py:3: import of gc"


@pytest.mark.parametrize(
    "text",
    [
        "class M(torch.nn.Module):\n    def f(self, i):\n        self.__dict__['w'] = getattr(self, f'conv{i}')\n"
        "        setattr(self, f'conv{i}', self.__class__.__name__)\n        object.__setattr__(self, 'a', 1)",
        "for name in ('weight', 'bias'):\n    getattr(linear, name, None)",
        "torch.backends.cuda.matmul.allow_tf32 = True\ntorch._dynamo.config.suppress_errors = True",
        "import os, sys, threading, functools\nos.environ['A'] = '1'\nsys.stdout.flush()",
        "stream = torch._C._cuda_getCurrentRawStream(0)",
        "size = globals().get('height', None)\n'tl' in globals()",
        "\u03c3_x, \u0394, \u00e9t\u00e9 = 1, 2, 3",
        "model.eval()\ntorch.compile(model)\nfrom torch import compile\ncompile(model)",
        "torch.compile(",
        "hasattr(torch, name)\nsuper().__init__()",
        "def f(x):\n    return torch.trace(x) + x.trace()",
        "torch.signal.windows.hann(8)",
    ],
)
def test_honest_ways_name_nothing(text):
    assert reached(HEAD + text) == []


@pytest.mark.parametrize("corpus", [Corpus.HONEST, Corpus.MUTATION, Corpus.AA])
def test_honest_kernels_name_nothing(corpus):
    texts = {entry.id: entry.candidate for entry in entries() if entry.corpus is corpus}
    assert texts and {name: found for name, text in texts.items() if (found := reached(text))} == {}


@pytest.mark.skipif(not FIXTURES, reason="ADAEXPLORE_FIXTURES is not set")
def test_published_kernels_name_nothing():
    texts = set()
    for path in Path(FIXTURES, "recorded_searches").glob("*.json.gz"):
        texts |= {step["code"] for step in json.loads(gzip.decompress(path.read_bytes()))["steps"] if step.get("code")}
    assert len(texts) > 500
    assert [found for text in texts if (found := reached(text))] == []
