"""The folder that carries jobs: claims, half-copied files, several servers, outcomes that count once."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import threading

import pytest

from judge.batch.folder import LEASE_S, Folder, Waiting, token_of
from judge.batch.https import ServerRefused
from judge.batch.lines import job_line, read_outcome
from judge.batch.serving import FolderPlace, Taken, _kept, serve
from judge.bench.processes.stopping import look
from judge.values import JudgeError, Verdict
from judge.values.owners import here
from tests.judge.batch.test_batch_run import FakeBench
from tests.judge.batch_makers import KEY, MARK, OTHER, job, passed


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path):
    return tmp_path / "jobs"


def put(folder: Folder, name: str, *, priority: int = 50, place: int = 1, key=KEY, **changes) -> Waiting:
    waiting = Waiting(priority, place, token_of(name, f"nonce-{name}"))
    folder.put_job(waiting, job_line(job(name, **changes), nonce=f"nonce-{name}", key=key))
    return waiting


def served(folder: Folder, bench: FakeBench, **options):
    said: list[str] = []
    done = serve(
        FolderPlace(folder, "lab"),
        bench=bench,
        key=KEY,
        fingerprint=lambda: MARK,
        say=said.append,
        once=True,
        **options,
    )
    return done, said


def outcomes(folder: Folder) -> list:
    return [read_outcome(line.rstrip(b"\n"), {"lab": KEY}) for _, line in folder.outcomes()]


def test_jobs_are_judged_the_most_urgent_first_and_answered_once(root) -> None:
    folder = Folder(root)
    put(folder, "late", place=9)
    put(folder, "soon", place=2)
    put(folder, "first", priority=10, place=30)
    bench = FakeBench()
    done, _ = served(folder, bench)
    assert bench.jobs == ["first", "soon", "late"] and done.judged == 3
    assert sorted(one.id for one in outcomes(folder)) == ["first", "late", "soon"]
    again = FakeBench()
    assert served(Folder(root), again)[0].judged == 0 and again.jobs == []
    assert not list((root / "claims").iterdir())


def test_a_job_that_was_answered_is_not_judged_again_when_its_outcome_has_left(root) -> None:
    folder = Folder(root)
    waiting = put(folder, "a")
    served(folder, FakeBench())
    (root / "outcomes" / f"{waiting.token}.json").unlink()  # rsync --remove-source-files took it along
    bench = FakeBench()
    served(folder, bench)
    assert bench.jobs == []


def test_half_copied_files_are_passed_over_until_they_are_whole(root) -> None:
    folder = Folder(root)
    waiting = put(folder, "a")
    path = root / "jobs" / waiting.name
    whole = path.read_bytes()
    (root / "jobs" / f".{waiting.name}.Xy12").write_bytes(whole)  # as rsync names what it writes
    (root / "jobs" / "notes.txt").write_bytes(b"mine\n")
    for part in (b"", whole[:40], whole[:-1], whole[:100] + b"\n"):
        path.write_bytes(part)
        bench = FakeBench()
        done, _ = served(folder, bench)
        assert (bench.jobs, done.refused) == ([], 0)
    path.write_bytes(whole)
    bench = FakeBench()
    served(folder, bench)
    assert bench.jobs == ["a"]


def test_a_file_larger_than_any_line_is_never_read(root, monkeypatch) -> None:
    monkeypatch.setattr("judge.batch.folder.MAX_LINE", 100)
    folder = Folder(root)
    put(folder, "a")
    (root / "outcomes" / "big.json").write_bytes(b"x" * 200 + b"\n")
    assert not list(folder.outcomes()) and folder.read(folder.waiting()[0]) is None


def test_a_job_that_somebody_altered_is_refused_with_its_reason_and_holds_up_no_other(root) -> None:
    folder = Folder(root)
    bad = put(folder, "bad", place=1)
    put(folder, "good", place=2)
    path = root / "jobs" / bad.name
    path.write_bytes(path.read_bytes().replace(b"class ModelNew", b"class modelNew"))
    bench = FakeBench()
    done, said = served(folder, bench)
    assert bench.jobs == ["good"] and done.refused == 1
    assert "signature" in folder.refusals()[bad.token] and any("refused" in line for line in said)


def test_jobs_of_other_devices_are_left_to_them(root) -> None:
    folder = Folder(root)
    other = put(folder, "theirs", key=OTHER)
    bench = FakeBench()
    done, _ = served(folder, bench)
    assert (bench.jobs, done.refused) == ([], 0)
    assert folder.claim(other.token)


def test_a_claim_is_held_by_one_until_it_is_released(root) -> None:
    one, two = Folder(root), Folder(root)
    assert one.claim("t") and not two.claim("t") and not one.claim("t")
    two.release("t")
    assert not two.claim("t")
    assert not two.renew("t") and one.renew("t")
    one.release("t")
    assert two.claim("t")


def test_a_claim_that_is_not_renewed_runs_out_by_the_clock_of_who_looks(root) -> None:
    clock = Clock()
    one, two = Folder(root), Folder(root, clock=clock)
    one.owner = "elsewhere@1-1:7:abc"
    assert one.claim("t") and not two.claim("t")
    clock.now += LEASE_S - 1
    one.renew("t")
    assert not two.claim("t")
    clock.now += LEASE_S - 1
    assert not two.claim("t")
    clock.now += 1
    assert two.claim("t")
    assert not one.renew("t")


def test_a_claim_of_a_killed_process_of_this_host_is_free_at_once(root) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead = Folder(root)
    dead.owner = f"{here()}:{int(gone.stdout)}:abc"
    assert dead.claim("t")
    assert Folder(root).claim("t")


def test_an_empty_claim_file_runs_out_too(root) -> None:
    clock = Clock()
    folder = Folder(root, clock=clock)
    (root / "claims" / "t").write_bytes(b"")
    assert not folder.claim("t")
    clock.now += LEASE_S
    assert folder.claim("t")


def test_of_many_that_take_over_a_stale_claim_one_has_it(root) -> None:
    folders = [Folder(root, clock=Clock()) for _ in range(8)]
    dead = Folder(root)
    dead.owner = "elsewhere@1-1:7:abc"
    dead.claim("t")
    for folder in folders:
        folder.claim("t")
        folder._clock.now += LEASE_S  # type: ignore[attr-defined]
    start, won = threading.Barrier(len(folders)), []

    def take(folder: Folder) -> None:
        start.wait(30)
        if folder.claim("t"):
            won.append(folder)

    threads = [threading.Thread(target=take, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [folder for folder in folders if folder.renew("t")] == won[:1] and won


def test_a_take_over_that_was_killed_half_way_holds_up_nobody_for_ever(root) -> None:
    clock = Clock()
    dead, folder = Folder(root), Folder(root, clock=clock)
    dead.owner = "elsewhere@1-1:7:abc"
    dead.claim("t")
    held = (root / "claims" / "t").read_bytes()
    (root / "claims" / f".t.{hashlib.sha256(held).hexdigest()[:12]}").touch()
    assert not folder.claim("t")
    clock.now += 2 * LEASE_S
    assert not folder.claim("t")
    clock.now += LEASE_S
    assert folder.claim("t") and folder.renew("t")


def test_the_second_outcome_of_one_job_is_dropped(root) -> None:
    one, two = Folder(root), Folder(root)
    assert one.put("t", b"first") and not two.put("t", b"second")
    ((path, line),) = one.outcomes()
    assert line == b"first\n"
    one.imported(path)
    assert not two.put("t", b"late") or not list((root / "jobs").iterdir())


def test_an_interrupt_gives_the_job_back_and_another_one_takes_it(root) -> None:
    folder = Folder(root)
    put(folder, "a")
    with pytest.raises(KeyboardInterrupt):
        served(folder, FakeBench(KeyboardInterrupt()))
    bench = FakeBench()
    served(Folder(root), bench)
    assert bench.jobs == ["a"]


def test_a_fault_of_the_judge_is_said_as_such(root) -> None:
    folder = Folder(root)
    put(folder, "a")
    served(folder, FakeBench(*[JudgeError("no child")] * 3))
    assert [one.outcome.verdict for one in outcomes(folder)] == [Verdict.LOST]


def test_no_evaluation_takes_longer_than_the_server_allows(root) -> None:
    class Limits(FakeBench):
        def evaluate(self, job):
            self.limits = job.limits
            return passed()

    folder, bench = Folder(root), Limits()
    put(folder, "a")
    served(folder, bench, most_s=5.0)
    assert (bench.limits.wall_s, bench.limits.stage_s) == (5.0, 5.0)
    assert outcomes(folder)[0].outcome.verdict == Verdict.PASS  # it answers the job as it was sent


def test_a_claim_whose_renewal_is_refused_is_tried_again(root, monkeypatch) -> None:
    tried = threading.Event()

    class Refusing(FolderPlace):
        times = 0

        def renew(self, taken):
            self.times += 1
            if self.times == 2:
                tried.set()
            raise ServerRefused("the server answers 403")

    monkeypatch.setattr("judge.batch.serving.WANTED_S", 0.001)
    with _kept(Refusing(Folder(root), "lab"), Taken("t", b"")):
        assert tried.wait(20)
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "claim"), (
            "it ends with the process"
        )


def test_a_disk_that_is_away_is_asked_again_and_no_outcome_is_lost(root) -> None:
    class Away(FolderPlace):
        fails = 2

        def put(self, taken, line):
            if self.fails:
                self.fails -= 1
                raise OSError("stale handle")
            return super().put(taken, line)

    folder, said, slept = Folder(root), [], []
    put(folder, "a")
    serve(
        Away(folder, "lab"), bench=FakeBench(), key=KEY, fingerprint=lambda: MARK, say=said.append, once=True,
        sleep=slept.append,
    )  # fmt: skip
    assert len(outcomes(folder)) == 1 and len(slept) == 2
    assert ["cannot be reached" in line for line in said].count(True) == 1


def test_files_are_private_unless_the_folder_is_its_groups(root, tmp_path) -> None:
    folder = Folder(root)
    waiting = put(folder, "a")
    assert stat.S_IMODE((root / "jobs" / waiting.name).stat().st_mode) == 0o600
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o2770)  # noqa: PTH101
    waiting = put(Folder(shared), "a")
    assert stat.S_IMODE((shared / "jobs" / waiting.name).stat().st_mode) == 0o660


def test_an_evaluation_whose_job_is_withdrawn_is_ended_and_named(root, monkeypatch) -> None:
    monkeypatch.setattr("judge.batch.serving.WANTED_S", 0.01)
    folder = Folder(root)
    first, second = put(folder, "a", place=1), put(folder, "b", place=2)

    class Stopped(FakeBench):
        def evaluate(self, job):
            if job.id == "a":
                folder.withdraw(first)
                while True:
                    look()
            return super().evaluate(job)

    done, said = served(folder, Stopped())
    assert (done.judged, done.stopped) == (1, 1) and "job a is not wanted any more: it was stopped" in said
    assert [one.id for one in outcomes(folder)] == ["b"] and not list((root / "claims").iterdir())
    assert folder.waiting() == [second]


def test_a_claim_is_written_again_now_and_then_only(root) -> None:
    clock, folder = Clock(), Folder(root)
    put(folder, "a")
    place = FolderPlace(folder, "lab", clock=clock)
    taken = place.take()
    claim = root / "claims" / taken.token
    before = claim.read_bytes()
    assert place.renew(taken) and claim.read_bytes() == before
    clock.now += LEASE_S / 4
    assert place.renew(taken) and claim.read_bytes() != before
