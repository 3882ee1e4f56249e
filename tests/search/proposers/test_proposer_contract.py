"""One contract for every proposer: each implementation inherits the suite, the built-in one included."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator

import pytest

from adaexplore_site.core.llm import ChatClient, Endpoint, Retry
from search.proposers import NAMES, UnknownProposer, available, get
from search.proposers.external import OpenAIProposer, recording_of
from search.proposers.protocol import ContextKernel, Proposer, Reply, Task, WaitingForPerson
from tests.llm_stub import StubLLM
from tests.llm_stub_kernels import answer_prompt, whole_module

PROBLEM = """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


def get_inputs():
    return [torch.rand(4, 64)]


def get_init_inputs():
    return []
"""
X = {"shape": [4, 64], "dtype": "float32", "stride": [64, 1]}
BARE = {"target": "", "args": [], "kwargs": {}, "out": None, "outs": []}
GRAPH = {
    "nodes": [
        {**BARE, "name": "x", "op": "input", "target": "0", "out": X},
        {**BARE, "name": "relu", "op": "aten.relu.default", "args": [{"node": "x"}], "out": X},
        {**BARE, "name": "mul", "op": "aten.mul.Tensor", "args": [{"node": "relu"}, 2], "out": X},
        {**BARE, "name": "output", "op": "output", "args": [{"node": "mul"}]},
    ]
}
DEVICE = {"kind": "interpreter", "title": "Interpreter", "arch": "sm_90", "triton": "3.7.1"}
BASE = whole_module(PROBLEM, 128)


def large(number: int = 1, **changes) -> Task:
    return dataclasses.replace(Task("large", "relu", PROBLEM, GRAPH, DEVICE, (), seed=11, number=number), **changes)


def small(base: str = BASE, number: int = 2, **changes) -> Task:
    shown = (ContextKernel(1, base, "pass", speedup=1.2, basis="measured"),)
    task = Task("small", "relu", PROBLEM, GRAPH, DEVICE, shown, seed=12, number=number, base=base)
    return dataclasses.replace(task, **changes)


class ProposerContract:
    """What the search relies on. Subclasses give `proposer` and may prepare tasks (`ready`)."""

    @pytest.fixture
    def proposer(self) -> Proposer:
        raise NotImplementedError

    def ready(self, task: Task) -> Task:
        return task

    def ask(self, proposer: Proposer, task: Task) -> Reply:
        return proposer.propose(self.ready(task))

    def base(self, proposer: Proposer) -> str:
        """A kernel this proposer can improve by a small step."""
        return BASE

    def test_it_has_the_name_it_is_found_by(self, proposer):
        assert proposer.name in NAMES
        assert type(get(proposer.name)) is type(proposer)

    def test_a_large_step_gives_a_module_with_the_class_or_a_reason(self, proposer):
        reply = self.ask(proposer, large())
        compile(reply.source, "kernel.py", "exec")
        assert "class ModelNew" in reply.source

    def test_a_small_step_changes_the_kernel(self, proposer):
        base = self.base(proposer)
        reply = self.ask(proposer, small(base))
        compile(reply.source, "kernel.py", "exec")
        assert reply.source != base

    def test_the_same_task_gives_the_same_source(self, proposer):
        first = self.ask(proposer, large(3))
        assert self.ask(proposer, large(3)).source == first.source

    def test_every_exchange_is_recorded_in_storable_text(self, proposer):
        for call in self.ask(proposer, large()).calls:
            for text in (call.prompt, call.reply, call.error, call.model, call.template):
                assert "\x00" not in text.encode().decode()
            assert len(call.model) <= 120
            assert len(call.template) <= 120

    def test_a_summary_is_one_line(self, proposer):
        summary = self.ask(proposer, large()).summary
        assert "\n" not in summary
        assert len(summary) <= 200

    def test_a_problem_without_a_graph_ends_as_a_reply_too(self, proposer):
        assert isinstance(self.ask(proposer, large(graph=None)), Reply)


class TestBuiltin(ProposerContract):
    @pytest.fixture
    def proposer(self) -> Proposer:
        return get("builtin")

    def base(self, proposer: Proposer) -> str:
        return proposer.propose(large()).source


class TestOpenAI(ProposerContract):
    @pytest.fixture
    def proposer(self) -> Iterator[Proposer]:
        with StubLLM(answer=answer_prompt) as stub:
            yield openai_for(stub)


class TestRecorded(ProposerContract):
    @pytest.fixture
    def proposer(self) -> Proposer:
        return get("recorded")

    def ready(self, task: Task) -> Task:
        patch = "PATCH 1: tile\n<<<<<<< OLD\nBLOCK = 128\n=======\nBLOCK = 256\n>>>>>>> NEW\n"
        replies = {"1": f"```python\n{BASE}```", "2": patch, "3": {"source": BASE, "summary": "as it was"}}
        return dataclasses.replace(task, options={"replies": replies})

    def test_a_step_without_a_recording_says_so(self, proposer):
        reply = self.ask(proposer, large(99))
        assert reply.reason == "proposal.not_recorded"
        assert "99" in reply.message

    def test_a_stored_run_replays_its_sources_and_its_failures(self, proposer):
        rows = [
            Row(0, ""),
            Row(1, "class ModelNew(:\n"),
            Row(2, "", "proposal.no_code", "no block"),
            Row(3, ""),
        ]
        options = {"replies": recording_of(rows)}
        replies = [proposer.propose(large(number, options=options)) for number in (1, 2, 3)]
        assert replies[0].source == "class ModelNew(:\n"
        assert [reply.reason for reply in replies] == ["", "proposal.no_code", "proposal.not_recorded"]


class TestManual(ProposerContract):
    """A person answers what the prompt on the page asks, through the same parser."""

    @pytest.fixture
    def proposer(self) -> Proposer:
        return get("manual")

    def ask(self, proposer: Proposer, task: Task) -> Reply:
        from search.proposers.exchange import parse_reply

        with pytest.raises(WaitingForPerson) as waiting:
            proposer.propose(task)
        call = waiting.value.call
        assert "ModelNew" in call.prompt
        user = call.prompt[call.prompt.index("Task: ") :]
        reply = parse_reply(task, answer_prompt({"messages": [{"content": user}]}))
        return dataclasses.replace(reply, calls=(call,))


@dataclasses.dataclass
class Row:
    number: int
    source: str
    reason: str = ""
    message: str = ""
    summary: str = ""


def openai_for(stub: StubLLM, **retry) -> OpenAIProposer:
    endpoint = Endpoint("tiny", stub.url, "sk-secret-0123456789", 10.0)
    return OpenAIProposer(ChatClient(endpoint, rng=random.Random(1), retry=Retry(**retry), sleep=lambda seconds: None))


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(UnknownProposer, match="builtin, openai, manual, recorded"):
        get("oracle")


def test_what_is_available_says_why_not(settings):
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = "", "", ""
    choices = {choice.name: choice for choice in available()}
    assert tuple(choices) == NAMES
    assert choices["builtin"].ready
    assert "LLM_API_KEY" in choices["openai"].why_not


def test_a_configured_endpoint_is_available_and_shows_no_key(settings):
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = "http://h/v1", "sk-secret-0123456789", "tiny"
    choice = next(choice for choice in available() if choice.name == "openai")
    assert choice.ready
    assert "sk-secret" not in repr(choice)
