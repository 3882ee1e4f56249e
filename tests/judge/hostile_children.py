"""Candidates that do a random mixture of harm to the channel, the process and its descriptors, at a random stage.

`python -m tests.judge.hostile_children SECONDS [SEED] [DEVICE]` judges such candidates for that long, on the
interpreter unless told otherwise, and prints every one that ended as anything but the candidate's fault; exit status 1
if there was one.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass

from judge.bench.runner import Bench
from judge.values import BLAMING, Job, JudgeError, Limits, Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, candidate

STAGES = ("import", "init", "forward", "fourth", "later", "timed", "exit", "thread")
OF_CANDIDATE = {*BLAMING, Verdict.OUT_OF_MEMORY, Verdict.UNSUPPORTED, Verdict.PASS}
LIMITS = Limits(wall_s=12, stage_s=3)
DEEDS = {
    "bad frame": "link().send(b'\\x00\\x00\\x00\\x05[1,2]')",
    "not JSON": "link().send(b'\\x00\\x00\\x00\\x04\\xff\\xfe{}')",
    "partial frame": "link().send(b'\\x00\\x00\\x10\\x00{\"number\":')",
    "half a header": "link().send(b'\\x00\\x00')",
    "huge frame announced": "link().send(b'\\x7f\\xff\\xff\\xff' + b'x' * 1000)",
    "huge frame": "link().settimeout(2); link().sendall((7 << 20).to_bytes(4, 'big') + b' ' * (7 << 20))",
    "deep frame": "say('[' * 100000)",
    "wide number": "say('{\"number\": ' + '9' * 5000 + '}')",
    "other stage": "say(random.choice(FRAMES))",
    "many frames": "[say(random.choice(FRAMES)) for _ in range(300)]",
    "counted for ever": "[say('{\"counted\": {}}') for _ in range(20000)]",
    "late frame": "threading.Timer(random.random(), say, [random.choice(FRAMES)]).start()",
    "frame from a child": "os.fork() or (time.sleep(random.random()), say(random.choice(FRAMES)), os._exit(0))",
    "frame after exit": "os.fork() and os._exit(0); time.sleep(.3); say(random.choice(FRAMES)); os._exit(0)",
    "child keeps the channel": "os.fork() or (time.sleep(30), os._exit(0))",
    "leaves, child keeps the channel": "os.fork() and os._exit(0); time.sleep(30); os._exit(0)",
    "descriptors sent": "socket.send_fds(link(), [b'\\x00\\x00\\x00\\x02{}'], [0] * 60)",
    "half closed": "link().shutdown(socket.SHUT_WR)",
    "deaf": "link().shutdown(socket.SHUT_RD)",
    "closed": "link().close()",
    "replaced": "os.dup2(os.open('/dev/null', os.O_RDWR), link().fileno())",
    "all closed": "os.closerange(0, 256)",
    "no descriptors left": "KEPT.extend(os.dup(1) for _ in range(100000))",
    "no descriptors allowed": "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)",
    "stopped for a while": "os.fork() or (time.sleep(1), os.kill(os.getppid(), signal.SIGCONT), os._exit(0));"
    " os.kill(os.getpid(), signal.SIGSTOP)",
    "aborted": "os.abort()",
    "segmentation fault": "ctypes.string_at(8)",
    "no memory": "KEPT.append(bytearray(1 << 40))",
    "many children": "[os.fork() or (time.sleep(5), os._exit(0)) for _ in range(40)]",
    "many threads": "[threading.Thread(target=time.sleep, args=(5,), daemon=True).start() for _ in range(200)]",
    "orphans": "os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(20), os._exit(0))",
    "standard streams closed": "[os.close(n) for n in (0, 1, 2)]",
    "flooded output": "os.write(1, b'x' * (1 << 20)); os.write(2, b'\\xff' * (1 << 20))",
    "exit in a destructor": "KEPT.append(type('X', (), {'__del__': lambda self: os._exit(7)})()); KEPT.clear()",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "interrupt": "signal.raise_signal(signal.SIGINT)",
    "alarm": "signal.setitimer(signal.ITIMER_REAL, 0.2)",
    "processor time": "resource.setrlimit(resource.RLIMIT_CPU, (1, 1)); [None for _ in iter(int, 1)]",
    "file size": "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); open('x', 'w').write('y' * 10000)",
    "broken exception": "raise type('E', (Exception,), {'__str__': lambda self: os._exit(3)})()",
    "exception without a name": "raise type('\\ud800', (BaseException,), {'__module__': '\\x00'})('\\x00' * 5000)",
    "exit in text": "raise SystemExit(type('S', (), {'__repr__': lambda self: 1 / 0})())",
    "generator exit": "raise GeneratorExit",
}
FRAMES = [
    '{"number": "", "loaded": true}', '{"number": "0", "error": {"kind": "load", "reason": "", "message": ""}}', "{}",
    '{"arena": "memfd"}', '{"constructed": true, "state": [], "hook": false}', '{"ready": 1}', '{"us": -1}',
    '{"verdict": {}, "mac": ""}', '{"gave_up": "x"}', '{"counted": {"name": "k"}}', '{"doing": "audit"}',
    '{"stays": 1}', '{"need": {"a": "run"}}', '{"threads": [[1, 2, "a"]]}', '{"sandbox": {"seccomp": "active"}}',
]  # fmt: skip
HEAD = f"""
import ctypes, gc, random, resource, signal, socket, threading
KEPT, CALLS, DONE = [], [0], [False]
FRAMES = {FRAMES!r}

def link():
    return next(o for o in gc.get_objects() if type(o).__name__ == "Subject").link.sock

def say(text):
    body = text.encode()
    link().sendall(len(body).to_bytes(4, "big") + body)

def is_timed():
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_name not in ("_timed", "burst"):
        frame = frame.f_back
    return frame is not None

def harm(stage):
    if stage == STAGE and not DONE[0]:
        DONE[0] = True
        for deed in DEEDS:
            exec(deed)
"""


@dataclass(frozen=True)
class Mixture:
    """A few deeds, one after another, at one stage."""

    stage: str
    deeds: tuple[str, ...]

    @classmethod
    def drawn(cls, seed: int) -> Mixture:
        draw = random.Random(seed)
        return cls(draw.choice(STAGES), tuple(draw.sample(sorted(DEEDS), draw.choice((1, 1, 2, 3)))))

    @property
    def source(self) -> str:
        """The candidate, right but for its deeds."""
        deeds = [DEEDS[name] for name in self.deeds]
        forward = "CALLS[0] += 1\nharm('forward')\nif CALLS[0] == 4: harm('fourth')\n"
        forward += "if CALLS[0] == 6: harm('later')\nif is_timed(): harm('timed')\n"
        at_import = {
            "exit": "import atexit\natexit.register(harm, 'exit')\n",
            "thread": "threading.Timer(0.3, harm, ['thread']).start()\n",
        }.get(self.stage, "harm('import')\n")
        head = f"STAGE, DEEDS = {self.stage!r}, {deeds!r}\n{HEAD}\n{at_import}"
        return candidate(forward + "return self.right(x)", head=head, init="harm('init')")


def judged(bench: Bench, mixture: Mixture) -> Outcome | str:
    """The outcome, or what the bench raised."""
    try:
        return bench.evaluate(Job("hostile", ProblemSpec(PROBLEM), mixture.source, limits=LIMITS))
    except JudgeError as error:
        return f"{type(error).__name__}: {error}"


def is_blamed_on_it(outcome: Outcome | str) -> bool:
    return isinstance(outcome, Outcome) and outcome.verdict in OF_CANDIDATE


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(seconds: float, seed: int, device: str) -> int:
    bad, count, until = 0, 0, time.monotonic() + seconds
    verdicts: dict[str, int] = {}
    with Bench(device) as bench:
        while time.monotonic() < until:
            mixture, began = Mixture.drawn(seed + count), time.monotonic()
            outcome = judged(bench, mixture)
            count += 1
            name = f"{outcome.verdict} {outcome.reason}" if isinstance(outcome, Outcome) else "fault"
            verdicts[name] = verdicts.get(name, 0) + 1
            if not is_blamed_on_it(outcome) or time.monotonic() - began > 3 * LIMITS.wall_s:
                bad += 1
                say(f"{seed + count - 1} {mixture} {time.monotonic() - began:.1f} s {str(outcome)[:600]}")
    say(f"{count} judged, {bad} not blamed on the candidate: {verdicts}")
    return 1 if bad else 0


if __name__ == "__main__":
    given = dict(enumerate(sys.argv))
    sys.exit(main(float(given[1]), int(given.get(2, 0)), given.get(3, "interpreter")))
