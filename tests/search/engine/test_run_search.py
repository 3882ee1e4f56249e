"""`run_search`: one process, one JSON document, the same seed twice the same tree."""

from __future__ import annotations

import json
import random
import re
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from adaexplore_site.core.llm import ChatClient, Endpoint, endpoint_from_settings
from judge.devices.models import Device
from judge.problems.models import Problem
from judge.values import AdmissionReport, StageRecord
from search.management import console
from search.management.commands import run_search
from search.proposers.external import OpenAIProposer
from search.proposers.protocol import ProposerError
from search.records.models import Node, Run
from tests.llm_stub import Step, StubLLM
from tests.search.fakes import FakeBench, ScriptedProposer, wrong
from tests.search.makers import make_problem

pytestmark = pytest.mark.django_db


class AdmittingBench(FakeBench):
    """Also runs a preflight with the report it was given."""

    report = AdmissionReport("admitted")

    def admit(self, problem, *, limits=None, progress=None):
        progress(StageRecord("parse", "ok", 1.0))
        return self.report


@pytest.fixture
def search(monkeypatch):
    """Calls the command with fakes; returns (document or None, stderr)."""

    def call(*args, proposer=None, bench=None):
        monkeypatch.setattr(run_search, "bench_for", bench or FakeBench())
        monkeypatch.setattr(run_search, "get_proposer", proposer or ScriptedProposer())
        monkeypatch.setattr(console, "devices_sync", lambda: None)
        out, err = StringIO(), StringIO()
        try:
            call_command("run_search", "--json", *args, stdout=out, stderr=err)
        finally:
            call.out, call.err = out.getvalue(), err.getvalue()
        return json.loads(call.out)

    make_problem("relu")
    Device.objects.get_or_create(name="interpreter", kind=Device.Kind.INTERPRETER, title="Interpreter", arch="sm_90")
    return call


def test_it_prints_exactly_one_document_with_run_best_and_nodes(search):
    document = search("--problem", "relu", "--steps", "6", "--seed", "5", bench=FakeBench({1: wrong()}))
    assert set(document) == {"run", "best", "closest", "nodes"} and document["closest"] is None
    run = document["run"]
    assert (run["problem"], run["device"], run["toolchain"], run["seed"]) == ("relu", "interpreter", "fake 1", 5)
    assert (run["state"], run["steps"], run["told"], run["params"]["w"]) == ("finished", 6, 6, 0.3)
    assert [node["number"] for node in document["nodes"]] == [1, 2, 3, 4, 5, 6]
    failed, best = document["nodes"][1], document["best"]
    assert (failed["verdict"], failed["reason"], failed["speedup"], failed["interval"]) == (
        "wrong",
        "value.mismatch",
        None,
        None,
    )
    assert best["speedup"] == max(node["speedup"] or 0 for node in document["nodes"])
    assert best["interval"][0] <= best["speedup"] <= best["interval"][1]
    assert (best["basis"], best["n"]) == ("modelled", 1)


def test_the_same_seed_twice_gives_the_same_tree(search):
    def shape(seed):
        nodes = search("--problem", "relu", "--steps", "10", "--seed", seed)["nodes"]
        return [(node["parent"], node["kind"], node["source_hash"]) for node in nodes]

    assert shape("3") == shape("3")
    assert shape("3") != shape("4")


def test_progress_goes_to_stderr(search):
    search("--problem", "relu", "--steps", "2", "--seed", "1")
    assert "[2/2] node 2: pass" in search.err
    assert "MODELLED" in search.err


def test_parameters_are_taken_by_name(search):
    document = search("--problem", "relu", "--steps", "3", "--params", "policy=independent", "w=0.5")
    assert (document["run"]["params"]["policy"], document["run"]["params"]["w"]) == ("independent", 0.5)
    assert {node["parent"] for node in document["nodes"]} == {0}


def test_a_preset_is_taken_by_name_and_changed_by_parameters(search):
    document = search("--problem", "relu", "--steps", "2", "--preset", "default", "--params", "w=0.5")
    params = document["run"]["params"]
    assert (params["reward"], params["alpha"], params["w"]) == ("log", 1.0, 0.5)


def test_limits_are_taken_by_name_and_the_one_that_ended_it_is_told(search):
    run = search("--problem", "relu", "--steps", "9", "--limits", "evaluations=2", "stale_steps=50")["run"]
    assert (run["told"], run["limits"]["evaluations"]) == (2, 2)
    assert run["stop_reason"] == "Evaluation limit reached: 2 of 2 spent."
    with pytest.raises(CommandError, match="a name out of evaluations"):
        search("--problem", "relu", "--limits", "dollars=3")


def test_the_problem_is_admitted_first_when_the_device_has_not_seen_it(search):
    Problem.objects.update(admission={})
    search("--problem", "relu", "--steps", "1", bench=AdmittingBench())
    assert "preflight of relu on interpreter" in search.err
    assert Problem.objects.get().report_for("interpreter")["state"] == "admitted"


def test_a_refused_problem_starts_no_run(search):
    bench = AdmittingBench()
    bench.report = AdmissionReport("refused", reason="problem.x", message="Output is no tensor.")
    Problem.objects.update(admission={})
    with pytest.raises(CommandError, match="Output is no tensor"):
        search("--problem", "relu", bench=bench)
    assert Run.objects.count() == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--problem", "nope"], "no problem 'nope'. Known: relu"),
        (["--problem", "relu", "--device", "cuda:7"], r"no device 'cuda:7'. Known: interpreter"),
        (["--problem", "relu", "--proposer", "oracle"], "no proposer 'oracle'. Choose one of"),
        (["--problem", "relu", "--proposer", "manual"], "needs the page"),
        (["--problem", "relu", "--preset", "mine"], "no preset 'mine'. Choose one of: paper-l2"),
        (["--problem", "relu", "--params", "speed=1"], "not name=value with a name out of"),
        (["--problem", "relu", "--steps", "none"], "not a whole number"),
        (["--problem", "relu", "--seed", "-4"], "seed must be from 0"),
    ],
)
def test_a_wrong_argument_is_named_with_what_exists(search, args, words):
    with pytest.raises(CommandError, match=words):
        search(*args)
    assert search.out == ""
    assert Run.objects.count() == 0


def test_ctrl_c_stops_the_run_and_still_prints_the_tree(search):
    def interrupt(task):
        raise KeyboardInterrupt

    with pytest.raises(CommandError, match="Interrupted") as caught:
        search("--problem", "relu", "--steps", "5", proposer=ScriptedProposer({3: interrupt}))
    document = json.loads(search.out)
    assert caught.value.returncode == 130
    assert (document["run"]["state"], len(document["nodes"])) == ("stopped", 2)
    assert Node.objects.get(number=3).state == Node.State.CANCELLED


def test_a_failed_run_says_why(search):
    def refuse(task):
        raise ProposerError("the key was refused", permanent=True)

    with pytest.raises(CommandError, match="failed: the key was refused"):
        search("--problem", "relu", proposer=ScriptedProposer({2: refuse}))
    assert json.loads(search.out)["run"]["stop_reason"] == "the key was refused"


KEY = "sk-secret-0123456789"


@pytest.fixture
def model(search, settings, monkeypatch):
    """Calls the command with the real openai proposer on this endpoint; the waits are noted down, not slept."""
    waits = []
    monkeypatch.setattr(run_search.Command, "sleep", staticmethod(waits.append))

    def call(url):
        settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = url, "tiny", KEY
        client = ChatClient(endpoint_from_settings(), rng=random.Random(1), sleep=waits.append)
        arguments = ("--problem", "relu", "--steps", "3", "--proposer", "openai")
        with pytest.raises(CommandError) as caught:
            search(*arguments, proposer=lambda name: OpenAIProposer(client))
        assert caught.value.returncode == 1
        return json.loads(search.out), str(caught.value)

    call.waits = waits
    return call


def test_a_dead_endpoint_is_told_attempt_by_attempt_and_named_in_the_document(model, search, caplog):
    with StubLLM() as stub:
        url = stub.url  # free again below
    document, error = model(url)
    attempts = [record.getMessage() for record in caplog.records if record.name == "adaexplore_site.core.llm"]
    first = re.fullmatch(
        rf"LLM endpoint unreachable at {re.escape(url)}: attempt 1 of 4, next in (\d\.\d) s", attempts[0]
    )
    assert float(first[1]) == round(model.waits[0], 1)
    assert [line.split(": attempt ")[1][:6] for line in attempts[:4]] == ["1 of 4", "2 of 4", "3 of 4", "1 of 4"]
    assert "node 1: asking the model" in search.err
    assert "node 1: no proposal, try 1 of 8, next in 2 s." in search.err
    assert "node 1: no proposal, try 7 of 8, next in 60 s." in search.err
    assert (document["run"]["state"], document["nodes"], document["best"]) == ("paused", [], None)
    assert "failed 8 times in a row" in document["run"]["stop_reason"] and url in document["run"]["stop_reason"]
    assert "The search is paused" in error and "No node was made" in error


def test_a_refused_key_ends_the_search_at_once_and_shows_nowhere(model, search, capfd, caplog):
    with StubLLM([Step("401", echo=True)]) as stub:
        document, error = model(stub.url)
    assert "refused the key (401)" in document["run"]["stop_reason"]
    assert "The search is failed" in error and "No node was made" in error
    printed = capfd.readouterr()
    assert KEY not in search.out + search.err + error + caplog.text + printed.out + printed.err
    assert (len(stub.requests), model.waits) == (1, [])


def test_an_endpoint_that_comes_back_is_forgiven(search, settings, caplog):
    settings.LLM_BASE_URL, settings.LLM_MODEL = "http://127.0.0.1:1/v1", "tiny"
    with StubLLM([Step("503", message="warming up"), Step(text="no code")]) as stub:
        client = ChatClient(Endpoint("tiny", stub.url, KEY), rng=random.Random(1), sleep=lambda seconds: None)
        arguments = ("--problem", "relu", "--steps", "1", "--proposer", "openai")
        document = search(*arguments, proposer=lambda name: OpenAIProposer(client))
    assert document["run"]["state"] == "finished"
    assert f"{stub.url} failed (503). It said: warming up: attempt 1 of 4, next in" in caplog.text


def test_out_holds_the_document_and_the_best_kernel(search, tmp_path):
    document = search("--problem", "relu", "--steps", "3", "--out", str(tmp_path / "results"))
    assert json.loads((tmp_path / "results" / "result.json").read_text()) == document
    best = Node.objects.get(number=document["best"]["number"])
    assert best.source in (tmp_path / "results" / "best.py").read_text()
