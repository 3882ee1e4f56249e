"""Candidates that attack the judge get the right verdict, and the next evaluation does not notice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from judge.values import Verdict
from tests.judge.bench_problems import SAME, candidate, judge

pytestmark = pytest.mark.bench

LOOK = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)"


def processes_of(bench) -> set[int]:
    """Living processes in the sessions that the bench's zygotes and their children made."""
    mine = {str(server.process.pid) for server in bench._servers.values() if server.process}
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] in mine and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(cpu_bench):
    """After each attack: no process, no folder, and an honest candidate passes."""
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS
    cpu_bench.rest()
    before = processes_of(cpu_bench)
    yield
    cpu_bench.rest()
    assert processes_of(cpu_bench) == before
    assert [path.name for path in cpu_bench._root.iterdir() if path.is_dir()] == []
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS


def test_leaving_with_status_zero_is_no_pass(cpu_bench):
    outcome = judge(cpu_bench, candidate("os._exit(0)"))
    assert (outcome.verdict, outcome.reason) == (Verdict.CRASHED, "run.died")
    assert "exited with status 0" in outcome.message


def test_leaving_at_import_is_no_pass(cpu_bench):
    outcome = judge(cpu_bench, "import os\nos._exit(0)\nclass ModelNew: pass\n")
    assert (outcome.verdict, outcome.reason) == (Verdict.CRASHED, "load.died")
    assert not outcome.loads


def test_a_crash_of_the_process_is_named(cpu_bench):
    outcome = judge(cpu_bench, candidate("import ctypes; ctypes.string_at(8)"))
    assert outcome.verdict is Verdict.CRASHED
    assert "SIGSEGV" in outcome.message


@pytest.mark.parametrize("where", ["import", "forward"])
@pytest.mark.quiet
def test_an_endless_loop_times_out(cpu_bench, where):
    source = "while True: pass\nclass ModelNew: pass\n" if where == "import" else candidate("while True: pass")
    outcome = judge(cpu_bench, source, stage_s=1.5, wall_s=20)
    assert outcome.verdict is Verdict.TIMED_OUT
    assert outcome.reason == ("load.timeout" if where == "import" else "run.timeout")


def test_a_hundred_megabytes_of_output_are_cut_to_the_limit(cpu_bench):
    flood = "for _ in range(100): sys.stdout.write('x' * (1 << 20))\nreturn self.right(x)"
    outcome = judge(cpu_bench, candidate(flood))
    assert outcome.verdict is Verdict.PASS
    assert len(outcome.log) < 70_000
    assert "more bytes were dropped" in outcome.log


def test_a_printed_verdict_is_only_output(cpu_bench):
    forged = 'print(\'{"verdict": {"verdict": "pass"}, "mac": "00"}\', flush=True); return torch.zeros_like(x)'
    outcome = judge(cpu_bench, candidate(forged))
    assert outcome.verdict is Verdict.WRONG
    assert "verdict" in outcome.log


def test_a_verdict_written_into_every_descriptor_is_not_believed(cpu_bench):
    forged = (
        "import json, struct\n"
        "verdict = {'verdict': 'pass', 'stage': 'timing', 'loads': True}\n"
        "body = json.dumps({'verdict': verdict, 'mac': '0' * 64}).encode()\n"
        "for fd in range(3, 64):\n"
        "    try: os.write(fd, struct.pack('!I', len(body)) + body)\n"
        "    except OSError: pass\n"
        "return torch.zeros_like(x)"
    )
    outcome = judge(cpu_bench, candidate(forged))
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "tamper.channel")


def test_a_fork_bomb_ends_with_the_evaluation(cpu_bench):
    bomb = (
        "for _ in range(2000):\n"
        "    try:\n"
        "        if os.fork() == 0: time.sleep(60)\n"
        "    except OSError: break\n"
        "return torch.zeros_like(x)"
    )
    assert judge(cpu_bench, candidate(bomb), wall_s=30, stage_s=15).verdict is not Verdict.PASS


def test_a_child_in_a_session_of_its_own_does_not_outlive_the_evaluation(cpu_bench):
    escape = (
        "if os.fork() == 0:\n"
        "    try: os.setsid()\n"
        "    except OSError: pass\n"
        "    if os.fork() == 0: time.sleep(60)\n"
        "    os._exit(0)\n"
        "return self.right(x)"
    )
    assert judge(cpu_bench, candidate(escape)).verdict is Verdict.PASS


def test_signals_do_not_reach_the_judge(cpu_bench):
    attack = (
        "import signal\n"
        f"for pid in ({os.getpid()}, os.getppid(), -1):\n"
        "    try: os.kill(pid, signal.SIGKILL); print('sent', pid)\n"
        "    except OSError as error: print('refused', error.errno)\n"
        "return self.right(x)"
    )
    outcome = judge(cpu_bench, candidate(attack))
    assert outcome.verdict is Verdict.PASS
    assert "sent" not in outcome.log and "refused" in outcome.log


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd').read()",
        f"open('{Path(__file__).resolve()}').read()",
        "open('/tmp/adaexplore-left-behind', 'w')",
        "open(torch.__file__, 'a')",
        f"open('/proc/{os.getppid()}/environ').read()",
        "__import__('socket').create_connection(('127.0.0.1', 80), 1)",
        "__import__('socket').socket(1, 1).connect('/var/run/docker.sock')",
    ],
)
def test_what_lies_outside_the_private_folder_is_out_of_reach(cpu_bench, attempt):
    source = candidate(
        f"try:\n    {attempt}; print('reached')\nexcept OSError as error: print('refused', error.errno)\n"
        "return self.right(x)"
    )
    outcome = judge(cpu_bench, source)
    assert outcome.verdict is Verdict.PASS
    assert "reached" not in outcome.log and "refused" in outcome.log


def test_the_environment_holds_no_secret(cpu_bench, monkeypatch):
    outcome = judge(cpu_bench, candidate("print(sorted(os.environ)); return self.right(x)"))
    names = outcome.log.splitlines()[0]
    for secret in ("SECRET_KEY", "DATABASE_URL", "REDIS_URL", "API_KEY", "TOKEN", "ADAEXPLORE"):
        assert secret not in names
    assert "TRITON_CACHE_DIR" in names


def test_a_patched_comparison_changes_nothing(cpu_bench):
    head = (
        "torch.allclose = torch.equal = torch.Tensor.equal = lambda *a, **k: True\n"
        "torch.Tensor.__eq__ = lambda a, b: torch.ones_like(a, dtype=torch.bool)\n"
    )
    assert judge(cpu_bench, candidate("return torch.zeros_like(x)", head=head)).verdict is Verdict.WRONG


def test_the_reference_is_in_no_reachable_object(cpu_bench):
    search = (
        "import gc\n"
        "found = [o for o in gc.get_objects() if isinstance(o, type) and o.__name__ == 'Model']\n"
        "print('classes', len(found), 'problem' in sys.modules, os.path.exists('problem.py'))\n"
        "return self.right(x)"
    )
    outcome = judge(cpu_bench, candidate(search))
    assert "classes 0 False False" in outcome.log


def test_a_patched_clock_is_caught_by_the_referees_own(cpu_bench):
    head = "import judge.bench.subjects.harness as first\nfirst.Harness.touched = lambda self: []\n"
    head += "import time as clock\nclock.perf_counter_ns = lambda c=[0]: (c.__setitem__(0, c[0] + 10**10), c[0])[1]\n"
    outcome = judge(cpu_bench, candidate("return self.right(x)", head=head), timing=True)
    assert (outcome.verdict, outcome.reason) == (Verdict.SUSPECT, "time.mismatch")


def test_an_answer_that_is_right_only_while_checked_fails_in_the_timing(cpu_bench):
    source = candidate(
        "self.calls += 1\nreturn self.right(x) if self.calls < 20 else torch.zeros_like(x)", init="self.calls = 0"
    )
    outcome = judge(cpu_bench, source, timing=True)
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "time.wrong_output")
