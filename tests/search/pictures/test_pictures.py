"""The pictures of a search: what they hold, what they leave out and say so, and the same values as files."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from django.urls import reverse

from search.pictures.book import Book
from search.pictures.views import PICTURES, picture_of
from search.records.models import Proposal
from tests.pages import client_of
from tests.search.live_rows import grow
from tests.search.makers import make_run
from tests.search.picture_rows import measured_run, modelled_run

pytestmark = pytest.mark.django_db


def picture(run, name, x=""):
    return picture_of(Book(run), name, x)


def file_of(run, name, form, x=""):
    address = reverse("run-picture-file", args=[run.pk, name, form]) + (f"?x={x}" if x else "")
    return client_of("viewer", f"v-{name}-{form}-{x}").get(address)


def test_the_best_rises_only_by_what_may_be_the_best_and_a_tie_is_marked():
    found = picture(measured_run(), "best-so-far")
    styles = [spot.style for spot in found.panels[0].spots]
    assert styles == ["correct", "wrong", "best", "tied"]  # node 1 is faster than eager and not than torch.compile
    assert "set once and is node 3" in found.says and "measured" in found.says
    assert any(path.kind == "area-band" for path in found.panels[0].paths)
    assert any("line-tied" in path.kind for path in found.panels[0].paths)
    assert [rule.label for rule in found.panels[0].rules] == ["eager", "torch.compile"]


def test_a_model_s_range_ties_nothing_and_is_no_interval():
    found = picture(modelled_run(), "best-so-far")
    assert "tied" not in {spot.style for spot in found.panels[0].spots}
    assert "range of the time model" in " ".join(found.notes)


def test_speedups_of_another_basis_are_left_out_and_counted():
    run = modelled_run()
    stranger = grow(run, speedup=50.0).evaluation
    stranger.basis = "measured"
    stranger.save()
    found = picture(run, "best-so-far")
    assert "node 1" in found.says and "50" not in found.says
    assert "1 attempt with a speedup that is not MODELLED is left out." in found.notes
    assert all(row["speedup"] is None or row["speedup"] < 50 for row in found.records())


def test_attempts_with_an_unknown_price_are_left_out_of_the_axis_of_cost_and_counted():
    run = measured_run()
    for node, price in zip(run.nodes.filter(number__in=[1, 2, 3]), ("0.10", None, "0.20"), strict=True):
        Proposal.objects.create(node=node, proposer="openai", model="m", tokens_in=5, tokens_out=5, price_usd=price)
    found = picture(run, "best-so-far", "cost")
    assert [row["x"] for row in found.records()] == [0.1, None, 0.3, 0.3]
    assert "1 attempt with unknown cost, US dollars, left out." in found.notes
    assert len(found.panels[0].spots) == 3


def test_an_axis_that_nothing_is_known_for_is_not_offered():
    found = picture(measured_run(), "best-so-far", "tokens")
    assert [value for value, _, _ in found.choices] == ["attempts", "time", "device"]
    assert [row["x"] for row in found.records()] == [1.0, 2.0, 3.0, 4.0]


def test_the_roofline_puts_counted_bytes_where_they_were_counted_and_others_at_the_least():
    found = picture(modelled_run(), "roofline")
    rows = {row["node"]: row for row in found.records()}
    assert rows[1]["bytes"] == 8_000_000 and rows[1]["flop_per_byte"] == 0.125
    assert rows[2]["bytes"] == 4e6 and rows[2]["bytes_are"].startswith("the least")
    assert rows[1]["of_roof"] == pytest.approx(1e6 / 10e-6 / (0.125 * 3350e9), abs=1e-4)
    assert [spot.style for spot in found.panels[0].spots] == ["at-bound", "best"]
    assert "1 attempt that did not pass, left out." in found.notes


def test_without_a_roofline_the_picture_says_what_is_missing():
    run = modelled_run()
    report = run.problem.admission["interpreter"]
    for missing, words in (("roofline", "The roofs of this device are not known"), ("flops", "FLOPs are not known")):
        report.pop(missing)
        run.problem.save()
        found = picture(run, "roofline")
        assert words in found.says and found.panels == () and found.records() == [], missing
    run.device.kind = "external"
    assert picture(run, "roofline").says.startswith("Imported searches have no byte or FLOP counts")


def test_samples_of_a_gpu_are_drawn_and_written_whole_a_model_has_none():
    run = measured_run()
    found = picture(run, "samples")
    assert found.strips is not None and all(strip.ticks for strip in found.strips.rows)
    assert [strip.label for strip in found.strips.rows][:2] == ["node 3", "node 4"]
    assert len(found.records()) > 200 and found.table.hidden == len(found.records()) - 200
    modelled = picture(modelled_run(), "samples")
    assert modelled.strips is not None and not any(strip.ticks for strip in modelled.strips.rows)
    assert "no samples" in modelled.says


def test_the_lineage_leads_from_the_start_to_the_best_through_what_failed():
    found = picture(measured_run(), "lineage")
    assert [row["node"] for row in found.records()] == [1, 2, 3]
    assert "1 kernel on the way did not pass" in found.says
    assert [path.kind for path in found.panels[0].paths] == ["edge edge-large", "edge edge-large", "edge edge-small"]


def test_only_a_search_with_a_map_of_elites_shows_one():
    run = modelled_run(params={"policy": "map_elites"})
    kernel = "import triton\n@triton.jit\ndef k(x):\n    tl.sum(x)\ndef f():\n    k[1](x)\n"
    run.nodes.filter(number__in=[1, 2]).update(source=kernel, source_hash="one")
    found = picture(run, "elites")
    (row,) = found.records()
    assert (row["launches"], row["pattern"], row["node"], row["correct_kernels"]) == ("1", "reduction", 1, 2)
    assert "uct, keeps no map" in picture(modelled_run(), "elites").says


def test_the_burn_down_warns_before_a_limit_is_passed_and_never_guesses_early():
    run = measured_run(limits={"device_s": 62, "step_device_s": 1})
    found = picture(run, "burn-down")
    assert [panel.title for panel in found.panels] == ["Steps left", "Device time left"]
    assert not found.alarms  # 8 s used, 12 s to come
    for node in run.nodes.exclude(evaluation=None).select_related("evaluation"):
        node.evaluation.wall_ms = 14_000
        node.evaluation.save()
    assert "is reached before the last step" in picture(run, "burn-down").alarms[0]
    young = make_run()
    grow(young)
    assert "needs three completed steps" in " ".join(picture(young, "burn-down").notes)


def test_a_step_that_was_told_before_the_start_by_another_clock_is_drawn_at_the_start():
    run = measured_run()
    run.nodes.update(told_at=run.created_at - timedelta(seconds=90))
    found = picture(run, "burn-down")
    assert "6 of 10 after 0" in found.panels[0].says and {row["at_s"] for row in found.records()} == {0.0}


@pytest.mark.parametrize("name", PICTURES)
def test_a_search_without_attempts_says_what_is_missing(name):
    found = picture(make_run(), name)
    assert not found.drawn and found.says.endswith(".") and not found.records()


def test_files_carry_basis_and_the_flag_of_a_degenerate_problem():
    run = measured_run()
    run.problem.state = "degenerate"
    run.problem.save()
    document = file_of(run, "roofline", "json").json()
    assert document["basis"] == "measured" and document["problem"]["state"] == "degenerate"
    text = file_of(run, "best-so-far", "csv").content.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[0]["basis"] == "measured" and rows[0]["problem_state"] == "degenerate"
    assert rows[0]["speedup_low"] and rows[1]["speedup"] == ""
    assert file_of(run, "nonsense", "csv").status_code == 404


def test_a_formula_in_a_summary_stays_text_in_the_file():
    run = measured_run()
    run.nodes.filter(number=1).update(summary="=cmd|' /C calc'!A0")
    assert "'=cmd" in file_of(run, "lineage", "csv").content.decode()


def test_the_page_names_every_picture_its_files_and_flags_and_is_linked_from_the_cockpit():
    run = modelled_run()
    run.problem.state = "degenerate"
    run.problem.save()
    viewer = client_of("viewer")
    html = viewer.get(reverse("run-pictures", args=[run.pk]) + "?x=<script>").content.decode()
    for title in (
        "Best so far",
        "Roofline",
        "Samples",
        "Lineage",
        "Not drawn",
        "keeps no map",
        "MODELLED",
        "degenerate",
    ):
        assert title in html, title
    assert html.count('role="img"') >= 4 and "<script>" not in html.split("<main")[1]
    assert reverse("run-pictures", args=[run.pk]) in viewer.get(reverse("run-detail", args=[run.pk])).content.decode()


def test_the_page_asks_as_often_for_many_nodes_as_for_few(django_assert_max_num_queries):
    run = measured_run()
    for _ in range(30):
        grow(run)
    viewer = client_of("viewer")
    with django_assert_max_num_queries(40):
        assert viewer.get(reverse("run-pictures", args=[run.pk])).status_code == 200
