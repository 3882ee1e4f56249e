"""Speedups of an imported search are somebody else's: every page, answer and download says so beside each of them."""

from __future__ import annotations

import io
import json
import re
import zipfile
from importlib import import_module

import pytest
from django.apps import apps
from django.test import Client

from search.interchange.imports import search_import
from search.interchange.recording import Recording
from search.records.models import Run
from tests.pages import addresses, client_of
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db

LABEL = "L2 / 42 (200 steps) — 1.07× → 77.14× (extended budget)"
FIGURE = re.compile(r"(?<!\d)(?:1\.07|7\.71|77\.14)(?!\d)")  # no seconds of a time, such as 07.7134
MARKED = (
    r'<span class="measure" data-metric="[^>]*>(?:(?!</span></span>).)*not measured here</span></span>',
    r'<p class="basis-note"><span class="basis basis-reported">reported</span>.*?</p>',
    r'(?:aria-label|title)="[^"]*reported, not measured here[^"]*"',
    r"[\d.]+× reported, not measured here",  # in a caption, and in the title of a mark
)


@pytest.fixture
def run() -> Run:
    steps = [step(1, 0, fast_p=1.07), step(2, 1, kind="small_step", fast_p=77.14), step(3, 0, fast_p=7.71)]
    return search_import(data=packed(steps, label=LABEL), name="kb.json", user=None)


@pytest.fixture
def viewer() -> Client:
    return client_of("viewer")


def unmarked(html: str) -> list[str]:
    """Surroundings of figures that nothing marks as published."""
    for pattern in MARKED:
        html = re.sub(pattern, "", html, flags=re.S)
    return [html[max(0, hit.start() - 80) : hit.end() + 40] for hit in FIGURE.finditer(html)]


@pytest.mark.parametrize(
    ("label", "title"),
    [
        (LABEL, "L2 / 42 (200 steps)"),
        ("L2 / 7 (test)", "L2 / 7 (test)"),
        ("conv 16x16, 3x3: best 2.5x", "conv 16x16, 3x3: best"),
        ("A 4-fold win", "A"),
        ("98.29×", ""),
        ("", ""),
    ],
)
def test_a_title_ends_before_the_first_speedup_its_source_claims(label, title):
    assert Recording(label, "", "", "", "", ()).title == title


def test_the_whole_label_is_kept_with_the_import(run):
    assert (run.title, run.imported["label"]) == ("L2 / 42 (200 steps)", LABEL)


def test_titles_of_earlier_imports_lose_their_claims_and_nobody_else_s_does(run):
    own = Run.objects.create(problem=run.problem, device=run.device, proposer="builtin", title="mine, 3×")
    Run.objects.filter(pk=run.pk).update(title=LABEL)
    import_module("search.migrations.0002_titles_without_claims").clean(apps, None)
    assert list(Run.objects.order_by("pk").values_list("title", flat=True)) == ["L2 / 42 (200 steps)", "mine, 3×"]
    assert own.pk > run.pk


def test_no_page_shows_a_published_speedup_as_ours(run, viewer):
    pages = {f"/s/{run.pk}/n/{n}/?tab={tab}" for n in (0, 1, 2, 3) for tab in ("overview", "diff", "exchange", "log")}
    pages |= {"/", "/problems/", f"/problems/{run.problem.slug}/", f"/s/{run.pk}/", f"/new?problem={run.problem.slug}"}
    pages |= {"/activity/", f"/find/?q={run.pk}", f"/find/?q={run.problem.slug}"}
    pages |= {
        f"/s/{run.pk}/{name}"
        for name in (
            "activity/",
            "pictures/",
            "remove",
            "failures/",
            "what-if/",
            "what-if/?at=3&policy=greedy",
            "bulk/",
        )
    }
    for path in sorted(pages):
        html = viewer.get(path).content.decode()
        assert unmarked(html) == [], path


def test_the_pages_do_show_them_marked(run, viewer):
    for path in ("/", "/problems/", f"/s/{run.pk}/", f"/s/{run.pk}/n/2/"):
        assert "77.14×" in viewer.get(path).content.decode(), path
    cockpit = viewer.get(f"/s/{run.pk}/").content.decode()
    assert f'Published as <q class="published"><bdi>{LABEL}</bdi></q>' in cockpit
    assert cockpit.count('<span class="basis basis-reported">reported</span></h2>') == 2  # tree and chart
    assert "own, not measured here" in viewer.get(f"/s/{run.pk}/n/2/").content.decode()


def test_json_answers_name_the_basis_of_every_published_speedup(run, viewer):
    for name in ("snapshot", "events?since=0"):
        answer = viewer.get(f"/s/{run.pk}/{name}").json()
        nodes = answer["nodes"]
        assert {basis for value, basis in zip(nodes["x"], nodes["bs"], strict=True) if value} == {"reported"}
        texts = [line["html"] for line in answer["feed"]] + list(answer["html"].values())
        assert [found for text in texts for found in unmarked(text)] == []
    for name in ("replay", "counterfactual/"):
        assert not FIGURE.search(viewer.get(f"/s/{run.pk}/{name}").content.decode())
    fast = [event.payload for event in run.events.all() if event.payload.get("speedup") is not None]
    assert fast and {payload["basis"] for payload in fast} == {"reported"}


def test_downloads_say_so_in_the_line_of_every_published_speedup(run, viewer):
    kernel = viewer.get(f"/s/{run.pk}/n/2/kernel.py").content.decode()
    archive = zipfile.ZipFile(io.BytesIO(viewer.get(f"/s/{run.pk}/n/2/proof.zip").content))
    texts = {name: archive.read(name).decode() for name in archive.namelist()}
    report = json.loads(texts.pop("verdict.json"))
    for name, text in {**texts, "download": kernel}.items():
        for line in text.splitlines():
            said = "not measured" in line
            assert said or not FIGURE.search(line), (name, line)
    assert "not measured here" in report["headline"]
    assert report["evaluation"]["basis"] == "reported" and "not measured" in report["run"]["imported"]["figures"]


def test_the_files_of_its_pictures_say_that_figures_are_reported(run, viewer):
    for name in ("best-so-far", "lineage"):
        document = viewer.get(f"/s/{run.pk}/pictures/{name}.json").json()
        assert document["basis"] == "reported"
        assert {row["speedup_basis"] for row in document["rows"]} <= {"reported", None}


def test_every_address_of_an_imported_search_was_looked_at(run):
    """A new page about a run or node belongs into the tests above."""
    about = {entry.name for entry in addresses(run) if entry.path.startswith(f"/s/{run.pk}/")}
    looked_at = {
        "run-detail",
        "run-snapshot",
        "run-events",
        "run-budget",
        "run-replay",
        "run-activity",
        "run-remove",
        "run-failures",
        "run-pictures",
        "run-picture-file",
        "run-counterfactual",
        "run-what-if",
        "run-bulk",
        "node-detail",
        "kernel-download",
        "proof-download",
        "solution-download",
        "run-folder-download",
        "run-packed-download",
    }
    acts = {"run-pause", "run-resume", "run-stop", "run-archive", "run-steer", "node-reply", "node-branch"}
    acts |= {
        "kernel-verify",
        "kernel-dispute",
        "kernel-race",
        "kernel-mark",
        "kernel-recheck-cancel",
        "node-revoke",
        "node-stop",
    }
    assert about == looked_at | acts
