"""The `openai` proposer: repair of patches, cut-off replies, faults of the endpoint, and what is recorded of each."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from search.proposers import get
from search.proposers.protocol import ProposerError
from tests.llm_stub import Step, StubLLM
from tests.search.proposers.test_proposer_contract import BASE, large, openai_for, small

GOOD = "PATCH 1: tile\n<<<<<<< OLD\nBLOCK = 128\n=======\nBLOCK = 256\n>>>>>>> NEW\n"
BAD = GOOD.replace("BLOCK = 128", "BLOCK = 129")


def test_patches_that_do_not_match_are_reported_back_once_and_mended():
    with StubLLM([Step(text=BAD), Step(text=GOOD)]) as stub:
        reply = openai_for(stub).propose(small())
    assert reply.source == BASE.replace("BLOCK = 128", "BLOCK = 256")
    second = stub.requests[1]["body"]["messages"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert "nowhere" in second[3]["content"]
    assert [call.reply for call in reply.calls] == [BAD, GOOD]
    assert reply.calls[1].template.startswith("repair.txt@")


def test_patches_that_fail_twice_end_the_node_with_both_calls_on_record():
    with StubLLM([Step(text=BAD)]) as stub:
        reply = openai_for(stub).propose(small())
    assert (reply.reason, len(reply.calls), len(stub.requests)) == ("proposal.patch_mismatch", 2, 2)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("usage", "price"), [({"prompt_tokens": 11, "completion_tokens": 7}, "0.000036"), (None, None)]
)
def test_a_call_costs_what_its_model_costs_and_nobody_knows_without_token_counts(settings, tmp_path, usage, price):
    row = {"model": "tiny", "usd_per_m_in": "2", "usd_per_m_out": "2", "valid_from": "2020-01-01"}
    (tmp_path / "prices.json").write_text(json.dumps({"prices": [row]}))
    settings.LLM_PRICES = str(tmp_path / "prices.json")
    with StubLLM([Step(text="Sorry, no.", usage=usage)]) as stub:
        settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = stub.url, "k", "tiny"
        (call,) = get("openai").propose(large()).calls
    assert call.price_usd == (price and Decimal(price))


def test_a_reply_without_code_is_not_asked_for_again():
    with StubLLM([Step(text="Sorry, no.")]) as stub:
        reply = openai_for(stub).propose(large())
    assert (reply.reason, len(stub.requests)) == ("proposal.no_code", 1)
    assert reply.calls[0].reply == "Sorry, no."


def test_a_cut_off_reply_is_never_used_even_when_its_patches_are_whole():
    with StubLLM([Step(text=GOOD, finish="length")]) as stub:
        reply = openai_for(stub).propose(small())
    assert reply.reason == "proposal.cut_off"
    assert "7 tokens" in reply.message


def test_a_filtered_reply_is_a_refusal():
    with StubLLM([Step(text="", finish="content_filter")]) as stub:
        assert openai_for(stub).propose(large()).reason == "proposal.refused"


@pytest.mark.parametrize(("status", "permanent"), [("401", True), ("404", True), ("500", False), ("429", False)])
def test_faults_of_the_endpoint_are_recorded_and_carry_no_key(status, permanent):
    with StubLLM([Step(status, echo=True)]) as stub, pytest.raises(ProposerError) as caught:
        openai_for(stub).propose(large())
    error = caught.value
    assert error.permanent is permanent
    assert error.calls[0].error == str(error)
    assert "ModelNew" in error.calls[0].prompt
    assert "sk-secret" not in repr((str(error), error.calls))


def test_a_fault_during_the_repair_keeps_the_first_call_on_record():
    with StubLLM([Step(text=BAD), Step("401")]) as stub, pytest.raises(ProposerError) as caught:
        openai_for(stub).propose(small())
    assert [bool(call.error) for call in caught.value.calls] == [False, True]


def test_run_options_choose_the_model_and_reach_the_endpoint_but_nothing_else_does():
    options = {"model": "other", "temperature": 0.2, "replies": {"1": "x"}, "api_key": "k"}
    with StubLLM([Step(text=GOOD)]) as stub:
        reply = openai_for(stub).propose(small(options=options))
    body = stub.requests[0]["body"]
    assert (body["model"], body["temperature"], reply.calls[0].model) == ("other", 0.2, "other")
    assert not {"replies", "api_key"} & set(body)


def test_tokens_and_latency_are_recorded_and_the_price_is_unknown():
    with StubLLM([Step(text=GOOD)]) as stub:
        call = openai_for(stub).propose(small()).calls[0]
    assert (call.tokens_in, call.tokens_out, call.price_usd) == (11, 7, None)
    assert call.latency_ms > 0
