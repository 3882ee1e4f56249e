"""Work goes to forked processes: side by side, urgent first, never waited for beyond its time."""

from __future__ import annotations

import os
import time

import pytest

from judge.bench.processes.pool import Pool, default_workers


@pytest.fixture
def pool():
    pool = Pool(2)
    yield pool
    pool.close()


def soon() -> float:
    return time.monotonic() + 120


def test_results_come_back_from_other_processes(pool):
    tickets = [pool.submit(lambda n=n: {"n": n, "pid": os.getpid()}) for n in range(5)]
    assert pool.wait(tickets, soon())
    assert [ticket.result["n"] for ticket in tickets] == list(range(5))
    assert os.getpid() not in {ticket.result["pid"] for ticket in tickets}


def test_what_is_offered_begins_with_the_least_effort_and_urgent_work_goes_before_it(tmp_path):
    pool, log = Pool(1), tmp_path / "order"

    def work(name: str) -> dict[str, str]:
        with log.open("a") as file:
            file.write(name)
        return {"name": name}

    offered = [
        pool.offer(lambda name=name: work(name), effort) for name, effort in (("c", 9.0), ("a", 1.0), ("b", 2.0))
    ]
    assert not any(ticket.pid for ticket in offered)  # nothing begins before all are there
    pool.start()
    urgent = pool.submit(lambda: work("!"))
    assert pool.wait([urgent], soon()) and pool.wait(offered, soon())
    assert log.read_text() == "a!bc"
    pool.close()


def test_two_work_at_the_same_time(pool):
    """Each waits for the other's word: one after the other, neither would end."""
    a, b = os.pipe(), os.pipe()

    def meet(say: int, hear: int) -> dict[str, str]:
        os.write(say, b"x")
        return {"heard": os.read(hear, 1).decode()}

    tickets = [pool.submit(lambda: meet(a[1], b[0])), pool.submit(lambda: meet(b[1], a[0]))]
    assert pool.wait(tickets, soon())
    for fd in (*a, *b):
        os.close(fd)


def test_who_hangs_is_killed_and_the_rest_goes_on(pool):
    hangs = pool.submit(lambda: {"never": time.sleep(600)})
    assert not pool.wait([hangs], time.monotonic() + 0.1)
    pid = hangs.pid
    assert pool.drop([hangs]) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    after = pool.submit(lambda: {"fine": True})
    assert pool.wait([after], soon()) and after.result == {"fine": True}


def test_each_process_ends_with_its_time_even_if_nobody_may_kill_it(monkeypatch):
    pool = Pool(1, lifetime_s=0.2)
    ticket = pool.submit(lambda: {"never": time.sleep(600)})
    assert pool.wait([ticket], soon()) and ticket.result == {"died": "SIGALRM"}


def test_dropping_where_signals_are_forbidden_frees_the_place(pool, monkeypatch):
    def forbidden(pid: int, number: int) -> None:
        raise PermissionError

    hanging = [pool.submit(lambda: {"never": time.sleep(5)}) for _ in range(2)]
    pids = [ticket.pid for ticket in hanging]
    with monkeypatch.context() as patched:
        patched.setattr(os, "kill", forbidden)
        assert pool.drop(hanging) == 2
    after = pool.submit(lambda: {"fine": True})
    assert pool.wait([after], soon()) and after.result == {"fine": True}
    for pid in pids:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def test_urgent_work_overtakes():
    pool = Pool(1)
    gate = os.pipe()
    first = pool.submit(lambda: {"gate": os.read(gate[0], 1).decode()})
    later = [pool.submit(lambda: {"at": time.monotonic_ns()}, urgent=False) for _ in range(3)]
    urgent = pool.submit(lambda: {"at": time.monotonic_ns()})
    os.write(gate[1], b"x")
    assert pool.wait([urgent], soon()) and pool.wait([first, *later], soon())
    assert urgent.result["at"] < min(ticket.result["at"] for ticket in later)


def test_a_death_without_a_result_is_told(pool):
    ticket = pool.submit(lambda: {"never": os.kill(os.getpid(), 15)})
    assert pool.wait([ticket], soon())
    assert ticket.result == {"died": "SIGTERM"}


def test_an_exception_is_a_death_too(pool, capfd):
    ticket = pool.submit(lambda: {"never": 1 // 0})
    assert pool.wait([ticket], soon())
    assert ticket.result == {"died": "exit status 1"}
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_long_results_arrive_whole(pool):
    ticket = pool.submit(lambda: {"text": "x" * 300_000})
    assert pool.wait([ticket], soon())
    assert len(ticket.result["text"]) == 300_000


def test_one_that_is_enough_ends_the_wait(pool):
    hangs = pool.submit(lambda: {"never": time.sleep(600)})
    good = pool.submit(lambda: {"row": 1})
    assert pool.wait([hangs, good], soon(), enough=lambda ticket: bool(ticket.result))
    assert good.result == {"row": 1} and hangs.result is None


def test_there_is_always_a_worker():
    assert default_workers() >= 1
