"""Pages of one evaluation: everything behind its verdict, and its raw samples as files."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from judge.evaluations import facts, samples
from judge.evaluations.cases import ROWS, case_measurements
from judge.evaluations.models import Evaluation
from judge.evaluations.sanitizing import check_shown
from judge.sources.highlighting import listing


@never_cache
@require_safe
def evaluation_detail(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """Stages, rounds, samples, speed, audit, findings, kernels, environment, log and source."""
    evaluation = _load(evaluation_id)
    rows = samples.measurements(evaluation)
    context = facts.evaluation_context(evaluation, rows) | {
        "problem": evaluation.problem,
        "device": evaluation.device,
        "nodes": evaluation.nodes.select_related("run").order_by("-run_id", "number")[:ROWS],
        "speeds": facts.speeds(evaluation),
        "circumstances": samples.circumstances(rows),
        "plot": samples.samples_plot(rows),
        "case": facts.case_said(evaluation.report),
        "children": len(evaluation.report.get("environment", {}).get("children") or {}),
        "log": facts.log_of(evaluation),
        "code": listing(evaluation.source),
        "sanitizer": check_shown(evaluation),
    }
    return render(request, "evaluations/evaluation_detail.html", context)


@never_cache
@require_safe
def samples_csv(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """Every raw sample, one a line."""
    evaluation = _load(evaluation_id)
    text = samples.samples_csv(samples.measurements(evaluation), case_measurements(evaluation))
    return _file(HttpResponse(text, content_type="text/csv; charset=utf-8"), evaluation, "csv")


@never_cache
@require_safe
def samples_json(request: SiteRequest, evaluation_id: int) -> HttpResponse:
    """The samples with their intervals, methods and circumstances."""
    evaluation = _load(evaluation_id)
    document = samples.samples_document(evaluation, samples.measurements(evaluation), case_measurements(evaluation))
    return _file(JsonResponse(document, json_dumps_params={"indent": 1}), evaluation, "json")


def _load(evaluation_id: int) -> Evaluation:
    return get_object_or_404(Evaluation.objects.select_related("problem", "device", "sealed_set"), pk=evaluation_id)


def _file(answer: HttpResponse, evaluation: Evaluation, suffix: str) -> HttpResponse:
    answer["Content-Disposition"] = f'attachment; filename="evaluation-{evaluation.pk}-samples.{suffix}"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
