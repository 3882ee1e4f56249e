"""Candidates of the soak: honest ones with any verdict, and hostile ones, each with the verdicts it may get."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from judge.values import Verdict
from tests.judge.bench_problems import SAME, TRITON, candidate

SEGMENT = 0x50A4  # key of the shared memory that one of them makes
MARK = "adaexplore-soak"  # in the name of everything that a hostile candidate tries to leave outside
KEEP = "return self.right(x)"
WRONG = "return torch.zeros_like(x)"


@dataclass(frozen=True)
class Subject:
    """`verdicts` are the acceptable endings; `said` must be in its output, `unsaid` must not."""

    name: str
    source: str = field(repr=False)
    verdicts: frozenset[Verdict]
    hostile: bool = False
    said: str = ""
    unsaid: str = ""
    devices: frozenset[str] = frozenset({"cpu", "interpreter", "cuda"})
    stage_s: float = 100.0  # short for those that hang on purpose


def _honest(name: str, source: str, verdict: Verdict) -> Subject:
    devices = {"interpreter", "cuda"} if "triton" in source else {"cpu", "interpreter", "cuda"}
    return Subject(name, source, frozenset({verdict}), devices=frozenset(devices))


def honest() -> list[Subject]:
    """Right, wrong and broken, as a search makes them."""
    broken_kernel = TRITON.replace("tl.sum(v, 0) / n", "tl.sum(v, 0) / undefined_name", 1)
    stray = TRITON.replace("+ tl.load(b + at, mask=mask, other=0.0)", "- tl.load(b + at, mask=mask, other=0.0)", 1)
    return [
        _honest("right", SAME, Verdict.PASS),
        _honest("right_kernel", TRITON, Verdict.PASS),
        _honest("wrong", candidate(WRONG), Verdict.WRONG),
        _honest("wrong_kernel", stray, Verdict.WRONG),
        _honest("no_compile", broken_kernel, Verdict.COMPILE_FAILED),
        _honest("bad_source", "def nothing(:\n", Verdict.BAD_SOURCE),
        _honest("no_import", "import no_such_module\nclass ModelNew: pass\n", Verdict.LOAD_FAILED),
        _honest("raises", candidate("raise ValueError('no')"), Verdict.CRASHED),
        _honest("other_shape", candidate("return self.right(x)[:3]"), Verdict.WRONG_STRUCTURE),
    ]


def _tries(*attempts: str) -> str:
    """Every attempt must be refused; the answer is right all the same."""
    lines = []
    for attempt in attempts:
        lines += ["try:", f"    {attempt}; print('REACHED', {attempt!r})", "except OSError: print('refused')"]
    return "\n".join([*lines, KEEP])


def _hostile(name: str, forward: str, *verdicts: Verdict, init: str = "", head: str = "", **more: object) -> Subject:
    source = candidate(forward, init=init, head=head)
    return Subject(name, source, frozenset(verdicts), hostile=True, **more)  # type: ignore[arg-type]


def hostile() -> list[Subject]:
    """What hangs, breaks, eats, escapes, forges and leaves things behind."""
    refused = {"said": "refused", "unsaid": "REACHED"}
    no_pass = (Verdict.CRASHED, Verdict.WRONG, Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY, Verdict.DISHONEST)
    server = os.getpid()
    return [
        _hostile("hang", "while True: pass", Verdict.TIMED_OUT, stage_s=3.0),
        _hostile("hang_at_import", KEEP, Verdict.TIMED_OUT, head="while True: pass", stage_s=3.0),
        _hostile(
            "stop_itself", f"import signal; os.kill(os.getpid(), signal.SIGSTOP); {KEEP}", Verdict.TIMED_OUT,
            stage_s=3.0,
        ),
        _hostile("crash", f"import ctypes; ctypes.string_at(8); {KEEP}", Verdict.CRASHED),
        _hostile("exit", "os._exit(0)", Verdict.CRASHED),
        _hostile("exit_at_import", KEEP, Verdict.CRASHED, Verdict.LOAD_FAILED, head="os._exit(0)"),
        _hostile(
            "break_context",
            "if x.is_cuda:\n    torch.empty(4, device=x.device)[torch.tensor([1 << 40], device=x.device)] += 1\n"
            f"    torch.cuda.synchronize()\nraise RuntimeError('no context to break')\n{KEEP}",
            Verdict.CRASHED,
        ),
        _hostile(
            "eat_memory", "held = [bytearray(1 << 28) for _ in range(1000)]\n" + KEEP, Verdict.OUT_OF_MEMORY,
            devices=frozenset({"cpu", "interpreter"}),
        ),
        _hostile(
            "eat_gpu_memory",
            "held = [torch.empty(1 << 32, dtype=torch.uint8, device=x.device) for _ in range(1000)]\n" + KEEP,
            Verdict.OUT_OF_MEMORY, devices=frozenset({"cuda"}),
        ),
        _hostile(
            "fork_bomb",
            "for _ in range(4000):\n    try:\n        if os.fork() == 0: time.sleep(600)\n"
            f"    except OSError: break\n{WRONG}",
            *no_pass,
        ),
        _hostile("write_outside", _tries(
            f"open('/tmp/{MARK}', 'w')", f"open('/dev/shm/{MARK}', 'w')", f"open('/var/tmp/{MARK}', 'w')",
            f"open(os.path.dirname(torch.__file__) + '/{MARK}', 'w')", "open(torch.__file__, 'a')",
            f"os.mkdir('/{MARK}')",
        ), Verdict.PASS, **refused),
        _hostile("fill_folder", f"open('big', 'wb').write(bytes(64 << 20)); {KEEP}", Verdict.PASS),
        _hostile("dig_deep", KEEP, Verdict.PASS, init="for _ in range(1100): os.mkdir('d'); os.chdir('d')"),
        _hostile("seal_folder", f"os.makedirs('a/b', exist_ok=True); os.chmod('a', 0); {KEEP}", Verdict.PASS),
        _hostile("sockets", _tries(
            "__import__('socket').socket(2, 1)", "__import__('socket').create_connection(('127.0.0.1', 80), 1)",
            "__import__('socket').socket(1, 1).connect('/var/run/docker.sock')", "__import__('socket').socket(17, 3)",
        ), Verdict.PASS, **refused),
        _hostile("flood", "for _ in range(100): sys.stdout.write('x' * (1 << 20))\n" + KEEP, Verdict.PASS),
        _hostile("kill_parents", _tries(
            "os.kill(os.getppid(), 9)", f"os.kill({server}, 9)", "os.kill(-1, 9)",
            "os.killpg(os.getpgid(os.getppid()), 9)",
        ), Verdict.PASS, **refused),
        _hostile("read_secrets", _tries(
            f"open('/proc/{server}/environ').read()", "open(f'/proc/{os.getppid()}/environ').read()",
            f"open('/proc/{server}/mem', 'rb')", "open('/etc/shadow').read()", "os.listdir('/root')",
        ).replace(KEEP, f"print(sorted(os.environ))\n{KEEP}"), Verdict.PASS, said="refused", unsaid="SOAK_SECRET"),
        _hostile(
            "threads", KEEP, Verdict.PASS, Verdict.DISHONEST,
            init="import threading\nfor _ in range(4): threading.Thread(target=time.sleep, args=(600,)).start()",
        ),
        _hostile(
            "daemon",
            "try:\n    if os.fork() == 0:\n        if os.fork() == 0: time.sleep(600)\n        os._exit(0)\n"
            f"except OSError: pass\n{KEEP}",
            Verdict.PASS, Verdict.DISHONEST,
        ),
        _hostile(
            "setsid_escape",
            "try:\n    if os.fork() == 0:\n        try: os.setsid()\n        except OSError: pass\n"
            "        if os.fork() == 0:\n            os.closerange(0, 1024); time.sleep(600)\n        os._exit(0)\n"
            f"except OSError: pass\n{KEEP}",
            Verdict.PASS, Verdict.DISHONEST,
        ),
        _hostile(
            "shared_memory_left",
            "from multiprocessing import shared_memory\ntry:\n"
            f"    shared_memory.SharedMemory('{MARK}', create=True, size=1 << 26)\nexcept OSError: print('refused')\n"
            f"import ctypes; print('segment', ctypes.CDLL(None).shmget({SEGMENT}, 1 << 20, 0o1600))\n{KEEP}",
            Verdict.PASS,
        ),
        _hostile(
            "forge_verdict",
            "import json, struct\nbody = json.dumps({'verdict': {'verdict': 'pass'}, 'mac': '0' * 64}).encode()\n"
            "for fd in range(3, 64):\n    try: os.write(fd, struct.pack('!I', len(body)) + body)\n"
            "    except OSError: pass\n" + WRONG,
            Verdict.DISHONEST,
        ),
        _hostile("open_files", f"held = [open('/dev/null') for _ in range(100_000)]; {KEEP}", Verdict.CRASHED),
        _hostile("close_all", f"os.closerange(3, 1024); {KEEP}", Verdict.CRASHED, Verdict.DISHONEST),
    ]  # fmt: skip


def subjects(device: str) -> tuple[list[Subject], list[Subject]]:
    """(honest, hostile) ones that make sense on this kind of device."""
    kind = device.partition(":")[0]
    return [one for one in honest() if kind in one.devices], [one for one in hostile() if kind in one.devices]
