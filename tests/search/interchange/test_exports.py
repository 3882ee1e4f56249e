"""Downloads: names, provenance, hostile text, and the same bytes for the same rows."""

from __future__ import annotations

import ast
import io
import json
import zipfile

import pytest

from judge.values import canonical_hash
from search.interchange.exports import NothingToExport, kernel_file, product_version, proof_zip
from tests.search.export_rows import KERNEL, REFERENCE, make_node

pytestmark = pytest.mark.django_db

EVIL = "x\nimport os\r\x0b\x0c\u2028\u2029'''\"\"\"\\\n# coding: utf-7\n\u202e\ud7ff{{ a }}<b>"


def unzipped(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_a_kernel_file_tells_where_it_comes_from():
    node = make_node()
    name, data = kernel_file(node)
    text = data.decode()
    assert name == f"kernel_relu_scale_run{node.run_id}_node4.py"
    for part in (
        "#   problem: relu-scale",
        f"#   problem sha256: {node.run.problem.source_hash}",
        f"#   candidate hash: {canonical_hash(KERNEL)}",
        "#   verdict: pass, 1.8× [1.1–2.6] MODELLED over eager",
        "#   device: Interpreter (interpreter, sm_90)",
        "#   toolchain: torch 2.13.0 triton 3.7.1 sm_90",
        "#   protocol: judge/1",
        "proposer builtin, seed 5",
        "#   node: 4, large step on node 0",
        product_version(),
    ):
        assert part in text
    assert KERNEL in text


def test_the_header_leaves_the_candidate_hash_as_it_is():
    files = unzipped(proof_zip(make_node())[1])
    assert canonical_hash(files["kernel.py"]) == canonical_hash(KERNEL)


def test_a_measured_speedup_shows_interval_and_count():
    measured = {"basis": "measured", "speedup": 2.31, "speedup_low": 2.24, "speedup_high": 2.38, "speedup_n": 48}
    text = kernel_file(make_node(evaluation=measured))[1].decode()
    assert "verdict: pass, 2.31× [2.24–2.38] n=48 measured over eager" in text


def test_a_failed_kernel_is_exported_as_failed():
    failed = {"verdict": "wrong", "stage": "correctness", "reason": "value.mismatch", "message": "off by 3"}
    node = make_node(evaluation=failed)
    assert "#   verdict: FAILED: wrong (value.mismatch)\n#   message: off by 3\n" in kernel_file(node)[1].decode()
    assert "FAILED: wrong" in unzipped(proof_zip(node)[1])["README.txt"]


def test_an_unchanged_kernel_was_not_judged_and_says_why():
    node = make_node(evaluation={}, node={"reason": "proposal.unchanged", "message": "as it was"})
    assert "#   verdict: FAILED: proposal.unchanged\n#   message: as it was\n" in kernel_file(node)[1].decode()
    assert json.loads(unzipped(proof_zip(node)[1])["verdict.json"])["evaluation"] is None


def test_an_imported_kernel_says_that_nobody_here_measured_it():
    node = make_node(
        device={"name": "external:A6000", "kind": "external", "title": "A6000 (reported, not ours)", "arch": ""},
        evaluation={
            "basis": "reported",
            "speedup": 15.65,
            "speedup_low": None,
            "speedup_high": None,
            "speedup_n": None,
        },
        run={"origin": "import", "imported": {"file": "kb.json", "label": "L2 / 63: 249×"}},
    )
    files = unzipped(proof_zip(node)[1])
    assert "pass as reported, not judged here, 15.7× reported, not measured here" in files["kernel.py"].replace(
        "15.65", "15.7"
    )
    head = files["kernel.py"].partition("\n\n")[0]
    assert head.splitlines()[1].startswith("# Kernel recorded elsewhere, imported by")
    assert "#   imported from: kb.json\n" in head
    assert "#   published as (figures of that source, not measured by this product): L2 / 63: 249×" in head
    assert "were not measured by this product" in files["README.txt"] and "raw sample" not in files["README.txt"]
    document = json.loads(files["verdict.json"])
    assert document["run"]["imported"]["figures"] == "figures of that source, not measured by this product"
    assert (document["evaluation"]["basis"], document["measurements"]) == ("reported", [])


def test_an_archive_holds_reference_report_samples_and_calls():
    node = make_node()
    files = unzipped(proof_zip(node)[1])
    assert set(files) == {
        "README.txt",
        "kernel.py",
        "prompt-1.txt",
        "reference.py",
        "reply-1.txt",
        "repro.py",
        "verdict.json",
    }
    assert files["reference.py"] == REFERENCE
    assert (files["prompt-1.txt"], files["reply-1.txt"]) == ("Write it.", "Here you are.")
    verdict = json.loads(files["verdict.json"])
    assert verdict["measurements"][0]["samples_us"] == [3.25, 3.5]
    assert verdict["evaluation"]["report"]["environment"] == {"sandbox": {"seccomp": "active"}}
    assert "MODELLED" in verdict["headline"]
    ast.parse(files["repro.py"])


@pytest.mark.parametrize("make", [kernel_file, proof_zip])
def test_the_same_rows_give_the_same_bytes(make):
    node = make_node()
    assert make(node) == make(type(node).objects.get(pk=node.pk))


def test_hostile_text_in_a_row_stays_inside_its_comment():
    node = make_node(
        title=EVIL[:120],
        device={"title": EVIL[:100], "arch": "sm\n_90"},
        evaluation={"verdict": "crashed", "message": EVIL, "toolchain": EVIL[:100]},
        run={"imported": {"file": EVIL, "label": EVIL}},
    )
    files = unzipped(proof_zip(node)[1])
    head, _, rest = files["kernel.py"].partition("\n\n")
    assert all(line.startswith("#") for line in head.split("\n"))
    assert head.startswith("# -*- coding: utf-8 -*-\n")
    assert rest == KERNEL
    assert "\u202e" not in head
    assert ast.dump(ast.parse(files["kernel.py"].encode())) == ast.dump(ast.parse(KERNEL))
    assert "\nimport os" not in files["README.txt"]


@pytest.mark.parametrize("source", ["x = '''open\nclass ModelNew: pass\n", "class ModelNew(:\n", "ModelNew = 1 \\"])
def test_broken_source_is_exported_to_the_letter_without_a_self_check(source):
    text = kernel_file(make_node(source=source))[1].decode()
    assert text.rstrip("\n").endswith(source.rstrip("\n"))


def test_a_node_without_a_kernel_says_why_there_is_nothing():
    node = make_node(source="", evaluation={}, node={"reason": "proposal.no_code", "message": "No code block."})
    for make in (kernel_file, proof_zip):
        with pytest.raises(NothingToExport, match="Node 4 has no kernel to download: No code block"):
            make(node)


def test_no_run_option_but_the_model_leaves_the_house():
    node = make_node(run={"proposer_options": {"model": "tiny", "replies": {"1": "sk-secret-0123456789"}}})
    data = proof_zip(node)[1]
    assert "sk-secret" not in "".join(unzipped(data).values())
