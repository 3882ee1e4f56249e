"""Counts one point after the other in a process of its own that interprets kernels; see counting.py.

One JSON request a line on stdin (source, case, policy, candidate, limit_s), one JSON answer a line on stdout. Each
point has a fork of its own, which an alarm ends when it takes too long. No sandbox: only our own corpora come here.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

SEED = 1


def main() -> None:
    """Serve until stdin ends. Arguments: the target, and how many programs of a launch are interpreted."""
    import torch
    import torch._dynamo  # any dispatch mode needs it: seconds, once here instead of in every fork

    from judge.bench.interpreting.interpreter import install
    from tests.benchmarks.calibration import sampling

    torch.set_num_threads(1)
    adapter = install(sys.argv[1])
    sampling.install(int(sys.argv[2]))
    for line in sys.stdin:
        sys.stdout.write(_in_a_fork(adapter, json.loads(line)) + "\n")
        sys.stdout.flush()


def _in_a_fork(adapter: Any, request: dict[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        pid = os.fork()
        if pid == 0:
            _answer_and_exit(adapter, request, Path(folder))
        _, status = os.waitpid(pid, 0)
        answer = Path(folder) / "answer.json"
        if answer.exists():
            return answer.read_text(encoding="utf-8")
    late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
    why = f"took longer than {request['limit_s']} s" if late else f"ended with status {status}"
    return json.dumps({"error": why})


def _answer_and_exit(adapter: Any, request: dict[str, Any], folder: Path) -> None:
    try:
        signal.alarm(int(request["limit_s"]))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a candidate may print
        try:
            answer = _counted(adapter, request, folder)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raised is the answer
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        done = folder / "answer.part"
        done.write_text(json.dumps(answer), encoding="utf-8")
        done.rename(folder / "answer.json")
    finally:
        os._exit(0)


def _counted(adapter: Any, request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What the judge counts in one evaluation: launches of candidate and reference, one by one."""
    import torch

    from judge.bench.exchange.nested import cloned
    from judge.bench.foreign import factories, random_state
    from judge.bench.foreign.loading import load_candidate, load_problem
    from judge.bench.foreign.switches import neutral
    from judge.bench.interpreting.op_traffic import eager_traffic
    from judge.bench.judging.reference import Reference
    from judge.bench.subjects.watch import traffic_row
    from judge.values import Policy

    policy = Policy.from_json(request["policy"])
    neutral(policy)
    reference = Reference(load_problem(request["source"], request["case"], folder), "cpu", policy)
    inputs = reference.inputs("given", SEED)
    eager = eager_traffic(reference.model, cloned(inputs))
    model_class = load_candidate(request["candidate"], folder)
    random_state.reset(reference.construct_seed)
    with torch.no_grad():
        model = factories.under(policy, model_class(*cloned(reference.init)), "cpu")
        _give_parameters(model, reference)
        given = cloned(inputs)
        with adapter.counting():
            model(*given)
    counted = adapter.report()
    return {name: [traffic_row(row) for row in one.kernels] for name, one in (("candidate", counted), ("eager", eager))}


def _give_parameters(model: Any, reference: Any) -> None:
    """As the judge does by name or through the candidate's hook; the counts need shapes, not values."""
    if hasattr(model, "load_reference_state"):
        model.load_reference_state({name: tensor.clone() for name, tensor in reference.first.items()})
    if hasattr(model, "prepare"):
        model.prepare()


if __name__ == "__main__":
    main()
