"""docs/results/README.md against the rows kept beside it: every table is made again from them and compared."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from judge.values import Basis, text_hash
from search.reports.build import figures
from search.reports.values import BEST, Score
from tests.benchmarks.calibration.outcome import calibrate
from tests.benchmarks.calibration.outcome import table as calibration_table
from tests.benchmarks.calibration.records import read

ROOT = Path(__file__).resolve().parents[3]
FOLDER, SAMPLES = ROOT / "docs" / "results", ROOT / "judge" / "samples"
TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")
PLAIN = " ".join(TEXT.split())
OURS = {  # verdict and reason of a row -> the words of the README
    "refused_problem problem.memory": "without memory",
    "crashed load.died": "died",
    "wrong value.mismatch": "wrong",
    "wrong_structure structure.shape": "wrong shape",
    "crashed run.exception": "crashed",
    "compile_failed compile.timeout": "compile timed out",
    "compile_failed compile.error": "compile failed",
    "bad_source source.syntax": "bad source",
    "bad_source source.no_model": "bad source",
}


def table(head: str) -> list[list[str]]:
    """Cells of the rows below the first table whose head begins so."""
    lines = TEXT[TEXT.index(f"| {head} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def lines_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def document(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def campaign() -> dict[str, Any]:
    (block,) = document("interpreter/campaign.json")["blocks"]
    return block


@pytest.mark.parametrize("population", ["judged", "audited"])
def test_the_aggregates_of_the_campaign_are_those_of_its_problems(campaign, population):
    order = {path.stem: text_hash(path.read_text(encoding="utf-8")) for path in SAMPLES.glob("*.py")}
    lines = sorted(campaign["lines"], key=lambda line: order[line["slug"]])  # a report's order, which resamples keep
    lines = [line for line in lines if population == "judged" or line["audited"]]
    assert len(lines) == len(campaign["lines"]) == 18 and campaign["basis"] == "modelled"
    scores = [[Score(correct=True, speedup=line["speedup"]["value"])] for line in lines]
    made, unknown = figures(scores, rule=BEST, basis=Basis.MODELLED)
    printed = [[one.label, one.number, one.interval] for one in made]
    assert unknown == 0 and table("aggregate") == printed
    (kept,) = [one for one in campaign["tables"] if (one["population"], one["over"]) == (population, "eager")]
    assert [(row["value"], row["low"], row["high"]) for row in kept["figures"]] == [
        pytest.approx((one.value, one.low, one.high)) for one in made
    ]


def test_what_is_said_of_the_campaign_s_bests_is_so(campaign):
    improved = sum(line["number"] != 1 for line in campaign["lines"])
    assert f"seven steps improved {improved} of {len(campaign['lines'])}" in PLAIN


def test_the_rates_of_both_judges_are_those_of_the_kept_samples():
    found = document("h200/judge_bench.json")
    phases = {"cold": "cold", "burst": "warm, one after another", "paced": "warm, a second apart"}
    judges = {"judge": "ours", "plain": "plain"}
    assert table("phase") == [
        [
            phases[row["phase"]],
            judges[row["judge"]],
            str(row["n"]),
            f"{row['per_minute']:.1f}",
            f"{row['p50_s']:.2f}",
            f"{row['p95_s']:.2f}",
        ]
        for row in found["columns"]
    ]
    rate = {(row["judge"], row["phase"]): row["per_minute"] for row in found["columns"]}
    times = [rate["judge", phase] / rate["plain", phase] for phase in ("cold", "burst")]
    assert f"{times[0]:.1f} times the plain judge's rate cold, {times[1]:.1f} times warm" in PLAIN
    answers = [one["answer"] for one in found["samples"] if (one["judge"], one["phase"]) == ("judge", "burst")]
    beside = [median(one["wall_s"] - one[name] for one in answers) for name in ("busy_s", "alone_s")]
    assert f"{beside[0]:.2f} s are not spent in the calls themselves, {beside[1]:.2f} s once" in PLAIN
    calls = [one["answer"]["calls"] for one in found["samples"] if one["judge"] == "judge"]
    assert f"{min(calls)} to {max(calls)} pairs a kernel" in PLAIN
    agreed = found["agreement"]
    assert agreed["kernels"] == agreed["same_verdict"] == 3 and "all 3 got the same verdict from both" in PLAIN


def test_the_trials_of_published_kernels_are_those_of_the_kept_rows():
    found = document("h200/judge_bench_recorded.json")
    phases = {"cold": "cold", "loser": "loser, warm", "best": "would-be best", "once": "once"}
    judges = {"judge": "ours", "plain": "plain"}
    walls: dict[tuple[str, str], list[float]] = {}
    for one in found["trials"]:
        walls.setdefault((phases[one["phase"]], judges[one["judge"]]), []).append(one["wall_s"])
    assert table("trials of published kernels") == [
        [*names, str(len(took)), *(f"{seconds:.2f}" for seconds in (median(took), min(took), max(took)))]
        for names, took in sorted(walls.items(), key=lambda row: [*phases.values()].index(row[0][0]))
    ]
    times = found["times_plain"]
    assert f"{times['cold']:.1f} times the plain judge's evaluations a minute cold and {times['loser']:.1f}" in PLAIN


def test_the_large_problems_are_those_of_the_kept_rows():
    rows = document("h200/memory.json")
    assert {row["verdict"] for row in rows} == {"pass"} and all(row["memory"]["lean"] for row in rows)
    for cells, row in zip(table("large problem"), rows, strict=True):
        memory, gib = row["memory"], 2**30
        reached = memory["reached_bytes"]
        sizes = (memory["least_bytes"], reached["referee"], reached["candidate"])
        assert cells == [
            row["name"],
            memory["oracle"],
            *(f"{size / gib:.1f}" for size in sizes),
            f"{row['admit_s']:.1f}",
        ]


def test_what_is_said_of_a_crowd_and_of_launches_is_so():
    crowd, launches = document("h200/crowd.json")["honest"], document("h200/launch_bound.json")
    said = (
        f"{crowd['n']} of 30 were reached and passed: {crowd['p50_s']:.1f} s at the median, {crowd['p95_s']:.1f} s at"
    )
    assert said in PLAIN and not crowd["not_passed"]
    waits = crowd["waits_s"]
    assert f"{waits['gpu_waited_shared_s']:.0f} s of an evaluation are spent waiting to share" in PLAIN
    assert f"the {waits['gpu_alone_s']:.1f} s for which each holds it alone" in PLAIN
    itself = [row for row in launches if row["kind"] == "rnn-aa"]
    assert not any(row["call"] == "faster" for row in launches)
    ratios = [row["ratio"] for row in itself]
    assert f"{len(itself)} comparisons of the recurrent kernel with itself: none faster" in PLAIN
    assert f"ratios {min(ratios):.2f} to {max(ratios):.2f}" in PLAIN
    over = [row["median_us"]["eager"] / row["median_us"]["candidate"] for row in launches if row["kind"] == "rnn"]
    assert f"{min(over):.2f} to {max(over):.2f} in all six" in PLAIN and len(over) == 6


def test_the_self_test_s_counts_are_those_of_the_kept_rows():
    rows = lines_of("h200/selftest.csv")
    assert all(row["state"] == "right" for row in rows)
    ran = Counter(row["corpus"] for row in rows)
    order = ("exploit", "mutation", "honest", "aa")
    assert [cells[1] for cells in table("corpus")] == [f"{ran[corpus]} of {ran[corpus]}" for corpus in order]
    calls: Counter[str] = Counter()
    for row in rows:
        if row["corpus"] == "aa":
            calls.update({name: int(count) for count, name in re.findall(r"(\d+) (\w+)[,;]", row["message"])})
    assert f"({calls.total()} comparisons, none faster, {calls['slower']} slower)" in PLAIN and not calls["faster"]
    assert {row["protocol"] for row in rows if row["corpus"] != "aa"} == {"judge/4"}


def test_what_is_said_of_a_crowded_host_is_so():
    rows = lines_of("h200/selftest_four_gpus.csv")
    right, wrong = ([row for row in rows if (row["state"] == "right") is so] for so in (True, False))
    assert f"{len(right)} of {len(rows)} entries ended as they must" in PLAIN
    reasons = Counter(row["reason"] for row in wrong)
    late = reasons["load.timeout"] + reasons["run.timeout"]
    assert f"{reasons['problem.keeps_gpu']} references refused for keeping the GPU" in PLAIN
    assert f"{reasons['problem.timeout']} for no answer in time, {late} candidates late" in PLAIN
    held_up = reasons["problem.keeps_gpu"] + reasons["problem.timeout"] + late
    assert f"{held_up} of the other {len(wrong)} were held up" in PLAIN
    assert [row["id"] for row in wrong if row["reason"] == "run.unstable"] == ["h_column_sum_atomics"]


def test_the_sample_of_published_kernels_is_counted_as_its_rows_say():
    rows = lines_of("h200/recorded_sample.csv")
    assert f"{len(rows)} of 955 kernels" in PLAIN
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        outcome = f"{row['verdict']} {row['reason']}".strip()
        words = "lower precision" if row["verdict"] == "lower_precision" else OURS.get(outcome, outcome)
        counts.setdefault(row["published"], Counter())[words] += 1
    for cells in table("published as"):
        names = cells[0].split(", ") if cells[0].startswith("not loaded") else [cells[0]]
        total: Counter[str] = sum((counts.pop(name) for name in names), Counter())
        said = Counter(
            {words: int(n) for n, words in re.findall(r"(\d+) ([a-z ]+[a-z])", re.sub(r"\(.*?\)", "", cells[2]))}
        )
        assert (int(cells[1]), said) == (total.total(), total), cells
    assert not counts
    wrong = [row for row in rows if row["published"] == "correct, faster" and row["verdict"] == "wrong"]
    of_44 = sum(row["kernel"].startswith("kb-l2-p44-") for row in wrong)
    assert f"**{len(wrong)} wrong**" in TEXT and f"{of_44} belong to problem 44" in PLAIN


def test_the_calibration_s_errors_are_fitted_from_the_kept_rows():
    traffic, times = read([FOLDER / "h200" / "calibration.jsonl"])
    head, _, _, *lines = calibration_table(calibrate(traffic, times, told=lambda text: None))
    assert (
        "34 kernels at 36 points of 29 problems, 32 of them" in PLAIN and "34 kernels, 36 points, 29 problems" in head
    )
    fitted = [re.findall(r"[\d.]+ / +[\d.]+", line) for line in lines]
    small_last = [*fitted[:3], fitted[4], fitted[3]]  # the README tells the large sizes before the small ones
    assert [cells[1:] for cells in table("constants")] == [
        [re.sub(" +", " ", one) for one in row] for row in small_last
    ]


def test_no_speedup_is_published_that_nobody_audited():
    assert [path.name for path in sorted((FOLDER / "h200").iterdir())] == [
        "calibration.jsonl",
        "crowd.json",
        "judge_bench.json",
        "judge_bench_recorded.json",
        "launch_bound.json",
        "memory.json",
        "recorded_sample.csv",
        "selftest.csv",
        "selftest_four_gpus.csv",
    ]
    assert not {"speedup", "low", "high"} & set(lines_of("h200/recorded_sample.csv")[0])
    for name in ("crowd.json", "judge_bench_recorded.json", "launch_bound.json", "memory.json"):
        assert '"speedup"' not in (FOLDER / "h200" / name).read_text(encoding="utf-8")
    withdrawn = TEXT[TEXT.index("## Withdrawn: measured before the audit existed") :]
    assert not re.search(r"\d×|\d\.\d|\d–\d", withdrawn)
