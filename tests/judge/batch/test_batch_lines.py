"""Lines of job and outcome files: what goes in comes out, and nobody changes a byte of a signed one."""

from __future__ import annotations

import json
import random
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.batch.lines import BadLine, job_line, read_job, read_outcome
from judge.devices.keys import BadKey, DeviceKey, make_key, read_key
from judge.values import Limits, Policy, Precision, ProblemSpec, SealedCase
from tests.judge.batch_makers import CANARY, KEY, OTHER, SEALED, answered, job, passed
from tests.judge.bench_problems import PROBLEM

KEYS = {KEY.device: KEY}


def test_a_job_survives_the_road_with_everything_it_says() -> None:
    policy = Policy(precision=Precision.TF32)
    problem = ProblemSpec(PROBLEM, "gpu", policy, (SealedCase("s", {"A": 1.5, "B": [1, "x"]}, derived=True),))
    for beat in (None, 1.75, float("inf")):
        sent = job(problem=problem, beat=beat, incumbent="class ModelNew: ...", timing=False, limits=Limits(wall_s=9.5))
        back = read_job(job_line(sent, nonce="n", key=KEY), KEY)
        assert (back.job, back.nonce, back.device) == (sent, "n", "lab")


def test_an_outcome_survives_the_road() -> None:
    line = answered(job_line(job(), nonce="n", key=KEY))
    back = read_outcome(line, KEYS)
    assert (back.outcome, back.id, back.nonce, back.signed) == (passed(), "a", "n", True)


@pytest.mark.parametrize("kind", ["job", "outcome"])
def test_no_byte_of_a_signed_line_can_change(kind) -> None:
    line = job_line(job(), nonce="n", key=KEY)
    read = (lambda data: read_job(data, KEY)) if kind == "job" else (lambda data: read_outcome(data, KEYS))
    line = line if kind == "job" else answered(line)
    read(line)
    rng = random.Random(7)
    places = range(len(line)) if len(line) < 3000 else sorted(rng.sample(range(len(line)), 3000))
    for place in places:
        changed = bytearray(line)
        changed[place] = rng.choice([byte for byte in b' 0x"{}' if byte != line[place]])
        with pytest.raises(BadLine):
            read(bytes(changed))


@given(st.binary(max_size=200))
def test_whatever_a_line_holds_it_is_refused_in_words(data) -> None:
    for read in (lambda: read_job(data, KEY), lambda: read_job(data, None), lambda: read_outcome(data, KEYS)):
        with pytest.raises(BadLine):
            read()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_json_that_is_no_job_is_refused_in_words(value) -> None:
    line = json.dumps({"id": "a", "problem": value, "candidate": value, "limits": value}).encode()
    with pytest.raises(BadLine):
        read_job(line, None)


def test_inserted_and_repeated_keys_and_white_space_are_changes_too() -> None:
    line = answered(job_line(job(), nonce="n", key=KEY))
    for changed in (line + b" ", line.replace(b'"id":', b'"id": ', 1), line.replace(b"{", b'{"id":"b",', 1)):
        with pytest.raises(BadLine):
            read_outcome(changed, KEYS)


def test_a_job_is_taken_only_with_the_signature_of_this_device() -> None:
    for line in (job_line(job(), nonce="n"), job_line(job(), nonce="n", key=OTHER)):
        with pytest.raises(BadLine, match="sign"):
            read_job(line, KEY)
    assert read_job(job_line(job(), nonce="n"), None).job == job()


def test_an_outcome_is_no_job_and_a_job_no_outcome() -> None:
    line = job_line(job(), nonce="n", key=KEY)
    with pytest.raises(BadLine, match="no outcome"):
        read_outcome(line, KEYS)
    with pytest.raises(BadLine, match="no job"):
        read_job(answered(line), KEY)


def test_a_stale_protocol_or_a_wrong_hash_is_named() -> None:
    body = json.loads(job_line(job(), nonce="n"))
    with pytest.raises(BadLine, match="export again"):
        read_job(json.dumps(body | {"protocol": "judge/0"}).encode(), None)
    problem = body["problem"] | {"hash": "0" * 64}
    with pytest.raises(BadLine, match="hash"):
        read_job(json.dumps(body | {"problem": problem}).encode(), None)


def test_a_job_written_by_hand_needs_only_what_nobody_can_guess() -> None:
    sent = read_job(
        json.dumps({"id": "x", "problem": {"source": PROBLEM}, "candidate": "class ModelNew: ..."}).encode(), None
    )
    assert sent.job.limits == Limits() and len(sent.nonce) == 32


def test_neither_outcome_nor_refusal_tells_a_sealed_case() -> None:
    line = job_line(job(), nonce="n", key=KEY)
    assert CANARY.encode() in line and str(SEALED[0].constants["SIZE"]).encode() in line
    assert CANARY.encode() not in answered(line)
    with pytest.raises(BadLine) as refused:
        read_job(line.replace(b'"candidate"', b'"candidat"'), None)
    assert CANARY not in str(refused.value) and "7431" not in str(refused.value)


def test_a_key_is_private_unique_and_never_printed(tmp_path) -> None:
    path = tmp_path / "keys" / "lab.key"
    key = make_key(path, "lab")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == key and key.secret not in repr(key) and key.id not in key.secret
    with pytest.raises(BadKey, match="exists"):
        make_key(path, "lab")
    path.chmod(0o640)
    with pytest.raises(BadKey, match="chmod 600"):
        read_key(path)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"device": "lab", "secret": "zz"}', '{"device": "", "secret": "' + "a" * 64 + '"}']
)
def test_what_is_no_key_file_is_named(tmp_path, text) -> None:
    path = tmp_path / "lab.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadKey):
        read_key(path)
    with pytest.raises(BadKey, match="cannot be read"):
        read_key(tmp_path / "none.key")


def test_two_keys_have_two_ids() -> None:
    assert DeviceKey("a", "00" * 32).id != DeviceKey("a", "01" * 32).id
