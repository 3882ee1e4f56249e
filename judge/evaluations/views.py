"""Pages of one evaluation: everything behind its verdict, and its raw samples as files."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from judge.evaluations import facts as evaluation_facts
from judge.evaluations import facts as evaluation_samples
from judge.evaluations.models import Evaluation
from judge.selftest.trust import doubt_about
from judge.sources.highlighting import listing, visible


@never_cache
@require_safe
def evaluation_detail(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """Stages, rounds, samples, speed, audit, findings, kernels, environment, log and source."""
    evaluation = _load(evaluation_id)
    rows = evaluation_samples.measurements(evaluation)
    stages, audit = evaluation_facts.stages(evaluation)
    report = evaluation.report
    cases = report.get("cases", ())
    environment = report.get("environment", {})
    context: dict[str, Any] = {
        "evaluation": evaluation,
        "problem": evaluation.problem,
        "device": evaluation.device,
        "doubt": doubt_about(evaluation, now=timezone.now()),
        "nodes": evaluation.nodes.select_related("run").order_by("-run_id", "number")[: evaluation_facts.ROWS],
        "message": visible(evaluation.message[:20_000]),
        "speeds": evaluation_facts.speeds(evaluation),
        "timings": evaluation_samples.timings(rows),
        "circumstances": evaluation_samples.circumstances(rows),
        "plot": evaluation_samples.samples_plot(rows),
        "stages": stages,
        "audit": audit,
        "findings": evaluation_facts.findings(evaluation),
        "case": evaluation_facts.case_said(report),
        "cases": cases[: evaluation_facts.ROWS],
        "cases_hidden": max(0, len(cases) - evaluation_facts.ROWS),
        "kernels": evaluation_facts.kernels(evaluation),
        "environment": evaluation_facts.environment(evaluation),
        "layers": evaluation_facts.sandbox(environment),
        "children": len(environment.get("children") or {}),
        "log": evaluation_facts.log_of(evaluation),
        "code": listing(evaluation.source),
    }
    return render(request, "evaluations/evaluation_detail.html", context)


@never_cache
@require_safe
def samples_csv(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """Every raw sample, one a line."""
    evaluation = _load(evaluation_id)
    text = evaluation_samples.samples_csv(evaluation_samples.measurements(evaluation))
    return _file(HttpResponse(text, content_type="text/csv; charset=utf-8"), evaluation, "csv")


@never_cache
@require_safe
def samples_json(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """The samples with their intervals, methods and circumstances."""
    evaluation = _load(evaluation_id)
    document = evaluation_samples.samples_document(evaluation, evaluation_samples.measurements(evaluation))
    return _file(JsonResponse(document, json_dumps_params={"indent": 1}), evaluation, "json")


def _load(evaluation_id: int) -> Evaluation:
    return get_object_or_404(Evaluation.objects.select_related("problem", "device"), pk=evaluation_id)


def _file(answer: HttpResponse, evaluation: Evaluation, suffix: str) -> HttpResponse:
    answer["Content-Disposition"] = f'attachment; filename="evaluation-{evaluation.pk}-samples.{suffix}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
