"""What travels between the steps: points that cannot be mistaken, files that a stopped run leaves usable."""

from __future__ import annotations

import pytest

from judge.values import Basis, JudgeError, Outcome, Subject, Timing, Verdict
from tests.benchmarks.calibration.command import main
from tests.benchmarks.calibration.files import LineFile
from tests.benchmarks.calibration.measuring import Machine, measure_all, times_of
from tests.benchmarks.calibration.points import Point, points
from tests.benchmarks.calibration.records import read
from tests.benchmarks.calibration_makers import corpus

MACHINE = Machine("cuda:0", "NVIDIA H200", "sm_90", "2026-11-22")


def timing(subject: Subject, us: float) -> Timing:
    return Timing(subject, Basis.MEASURED, "cuda_events", (us, us), us, us, us)


def passed(candidate_us: float, eager_us: float) -> Outcome:
    times = (timing(Subject.CANDIDATE, candidate_us), timing(Subject.EAGER, eager_us))
    return Outcome(Verdict.PASS, "timing", loads=True, timings=times, environment={"toolchain": "torch 2"})


class FakeBench:
    def __init__(self, *answers: Outcome | JudgeError) -> None:
        self.answers, self.jobs = list(answers), []

    def evaluate(self, job):
        self.jobs.append(job)
        answer = self.answers.pop(0)
        if isinstance(answer, JudgeError):
            raise answer
        return answer


def test_every_point_is_another_piece_of_work_and_every_problem_comes_early() -> None:
    found = points()
    assert len({point.id for point in found}) == len({point.digest for point in found}) == len(found)
    problems = {point.problem for point in found}
    assert {point.problem for point in found[: len(problems)]} == problems
    assert len(problems) > 50 and {point.size for point in found} == {"given", "middle", "large", "huge"}


def test_a_size_is_set_as_the_only_case_of_the_problem() -> None:
    point = next(point for point in points() if point.id == "row_softmax_1@huge")
    assert point.spec.case == "calibration" and "{'calibration': {'ROWS': 8192" in point.spec.source


def test_what_was_read_is_what_was_written_whatever_ended_the_writer(tmp_path) -> None:
    pairs = corpus(problems=2)
    path = tmp_path / "lines"
    with LineFile(path) as out:
        for pair in pairs:
            out.add(pair.traffic.to_json())
            out.add(pair.times.to_json())
    whole = path.read_text()
    assert read([path]) == ([pair.traffic for pair in pairs], [pair.times for pair in pairs])
    path.write_text(whole[:-20])  # stopped in the middle of its last line
    assert len(read([path])[1]) == len(pairs) - 1
    with LineFile(path) as out:
        assert len(out.known("times")) == len(pairs) - 1
        out.add(pairs[-1].times.to_json())
    assert path.read_text() == whole


def test_a_line_that_is_none_is_named(tmp_path) -> None:
    path = tmp_path / "lines"
    path.write_text('{"kind": "times", "id": "x"}\n')
    with pytest.raises(ValueError, match="line 1"):
        read([path])
    path.write_text("no json\n{}\n")
    with pytest.raises(ValueError, match="line 1"):
        read([path])


def test_every_point_is_timed_without_an_audit_and_a_failure_is_told() -> None:
    wanted = points()[:3]
    bench = FakeBench(passed(4.0, 9.0), JudgeError("the GPU is gone"), Outcome(Verdict.WRONG, "correctness", "value.x"))
    told: list[tuple[Point, object]] = []
    measure_all(wanted, bench, MACHINE, lambda point, found: told.append((point, found)))
    assert told[0][1] == times_of(wanted[0], passed(4.0, 9.0), MACHINE)
    assert (told[0][1].candidate_us, told[0][1].eager_us, told[0][1].gpu) == (4.0, 9.0, "NVIDIA H200")
    assert told[1][1] == "the GPU is gone" and "wrong value.x" in told[2][1]
    assert all(job.beat == float("inf") and job.timing for job in bench.jobs)


def test_no_point_begins_after_the_end() -> None:
    bench = FakeBench()
    measure_all(points()[:3], bench, MACHINE, lambda point, found: None, end=0.0)
    assert bench.jobs == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["measure", "--device", "cuda:99", "--traffic", "t", "--out", "o"], "there is no GPU 'cuda:99'"),
        (["fit", "/nowhere/at/all"], "No such file"),
    ],
)
def test_what_cannot_be_done_says_why(arguments, words, capsys) -> None:
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_a_part_is_a_number_of_how_many(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["measure", "--traffic", "t", "--out", "o", "--part", "4/3"])
    assert "2/3 is the second of three" in capsys.readouterr().err
