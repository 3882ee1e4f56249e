"""What a proposer is told of a reserved node is what its rows say now."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from judge.evaluations.models import Evaluation
from search.engine.steps import task_of
from search.proposers.exchange import build_prompt
from search.records.models import Node
from search.records.queue import FollowUp
from tests.search.makers import Worker, make_device, make_problem, make_run

pytestmark = pytest.mark.django_db
OLD, NEW = "torch 2.12.0 triton 3.6.0 sm_90", "torch 2.13.0 triton 3.7.1 sm_90"


def reserved(preflight: datetime | None = None) -> Node:
    """The first node of a search whose problem had its preflight at that time, with the old toolchain."""
    problem = make_problem()
    if preflight is not None:
        problem.admission["interpreter"] |= {
            "case": "gpu",
            "environment": {"toolchain": OLD, "at": preflight.isoformat()},
        }
        problem.save()
    device = make_device()
    device.facts = {"memory_mb": 144384, "measured": {"dram_gb_s": 4000}}
    device.save()
    run = make_run(problem=problem)
    Worker().do(FollowUp("advance", run.pk))
    return run.nodes.get(number=1)


def test_a_prompt_names_the_device_its_toolchain_and_the_case():
    user = build_prompt(task_of(reserved(timezone.now()))).user
    facts = user.split("Device\n")[1].split("\n\n")[0].splitlines()
    assert facts == [
        "- memory_mb: 144384",
        "- name: interpreter",
        "- kind: interpreter",
        "- title: Interpreter",
        "- arch: sm_90",
        f"- toolchain: {OLD}",
        "- case: gpu",
    ]


def test_after_an_upgrade_a_prompt_names_the_versions_that_judge_now_and_not_those_of_the_preflight():
    node = reserved(timezone.now() - timedelta(days=30))
    Evaluation.objects.create(
        problem=node.run.problem, device=node.run.device, toolchain=NEW, verdict="wrong", candidate_hash="h"
    )
    assert task_of(node).device["toolchain"] == NEW
    user = build_prompt(task_of(node)).user
    assert f"- toolchain: {NEW}\n" in user and "triton 3.6.0" not in user


def test_where_nothing_was_judged_yet_no_toolchain_is_made_up():
    assert "toolchain" not in build_prompt(task_of(reserved())).user
