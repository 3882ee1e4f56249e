"""Plants bugs and checks that tests fail: python -m tests.mutants [--count 20] [--apps judge | --paths FOLDER].

A seeded sample of functions of each app gets one change each (an operator of mutmut, or a guard or statement left out),
in a copy of the tracked files. Per change only those tests run that reached the function when coverage was last taken;
for code that only children run, those that import its module, else those that start benches. With --near first those
test files run that import the changed file or lie in its room, and coverage is not taken. Everything is kept under
.data/mutants: reach.json (made once, by a run of the suite; --cover makes it anew), results.jsonl, summary.md with the
diff of each survivor.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, takewhile, zip_longest
from pathlib import Path
from typing import Any

import grimp
import libcst as cst
from coverage import CoverageData
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / ".data" / "mutants"
TREE, REACH = KEPT / "tree", KEPT / "reach.json"
MIGRATED = KEPT / "migrated.sqlite3"  # made before any bug is planted, or each would have the migrations run anew
APPS = ("adaexplore_site", "judge", "memory", "search")
CORPORA = [f"judge/selftest/{name}/" for name in ("exploits", "honest", "mutations", "aa", "problems")]
LEFT_OUT = ("/migrations/", "judge/samples/", *CORPORA)
CHOSEN = ["-m", "not cuda and not slow and not browser"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
TESTS_S = 40.0  # per mutant: of tests as they took when coverage was taken, those that reach the fewest functions first
MOST_FILES = 6  # per mutant, where tests are chosen by imports
MOST_NEAR = 12  # per mutant, of its room: first tests that start no bench, then those that do of the first six files
EACH_S = 300
VERDICTS = {0: "survived", 1: "killed", 2: "killed", 5: "untested"}  # by pytest's exit status; 2: it cannot be imported


@dataclass(frozen=True)
class Mutant:
    """One change: `kind` names the operator, `diff` has no context."""

    path: str
    function: str
    kind: str
    diff: str
    code: str
    found: str = ""


def functions_of(source: str) -> list[tuple[str, int, int]]:
    """(qualified name, first line of the body, last line) of each function that is in no other one."""
    found, waiting = [], [(node, "") for node in ast.parse(source).body]
    while waiting:
        node, before = waiting.pop(0)
        if isinstance(node, ast.ClassDef):
            waiting[:0] = [(inner, f"{before}{node.name}.") for inner in node.body]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append((before + node.name, node.body[0].lineno, node.end_lineno or 0))
    return found


def changed(node: cst.CSTNode) -> Iterator[tuple[str, cst.CSTNode]]:
    """What may stand in a node's place, with the operator's name."""
    for fits, operator in mutation_operators:
        if isinstance(node, fits):
            yield from ((operator.__name__.removeprefix("operator_"), other) for other in operator(node))
    if isinstance(node, cst.If) and node.orelse is None and leaves(node.body):
        yield "guard left out", cst.SimpleStatementLine([cst.Pass()])
    text = cst.SimpleString | cst.ConcatenatedString  # a docstring
    if isinstance(node, cst.Expr) and not isinstance(node.value, text):
        yield "statement left out", cst.Pass()


def leaves(body: cst.BaseSuite) -> bool:
    """Whether a block ends by leaving its function or loop."""
    last = body.body[-1]
    small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(small, cst.Return | cst.Raise | cst.Continue | cst.Break)


def mutants_of(path: str, name: str, first: int, last: int, rng: random.Random) -> Iterator[Mutant]:
    """Changes of one function that compile. Operators take turns: one that fits often comes no sooner than others."""
    source = (TREE / path).read_text()
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    places = {node: (at.start.line, at.end.line) for node, at in wrapper.resolve(PositionProvider).items()}
    mine = [node for node, (start, end) in places.items() if first <= start and end <= last]
    types = {inner for node in mine if isinstance(node, cst.Annotation) for inner in descendants(node)}
    found = [(kind, node, other) for node in mine if node not in types for kind, other in changed(node)]
    turns, order = Counter[str](), list[tuple[int, float, int]]()
    for place in rng.sample(range(len(found)), len(found)):
        order.append((turns[found[place][0]], rng.random(), place))
        turns[found[place][0]] += 1
    for _, _, place in sorted(order):
        kind, node, other = found[place]
        code = wrapper.module.deep_replace(node, other).code  # type: ignore[arg-type]
        diff = "\n".join([*difflib.unified_diff(source.splitlines(), code.splitlines(), lineterm="", n=0)][2:])
        if diff and compiles(code):
            yield Mutant(path, name, kind, diff, code)


def descendants(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all below it."""
    yield node
    for child in node.children:
        yield from descendants(child)


def compiles(code: str) -> bool:
    """Whether it is Python."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def sample(paths: list[str], count: int, seed: int) -> Iterator[Mutant]:
    """One mutant of each of `count` functions of these files."""
    rng = random.Random(seed)
    every = [(path, *row) for path in paths for row in functions_of((TREE / path).read_text())]
    firsts = (next(mutants_of(*place, rng), None) for place in rng.sample(every, len(every)))
    return islice((one for one in firsts if one is not None), count)


def in_file(path: str, seed: int) -> Iterator[Mutant]:
    """Every mutant of a file, the first of each function before any second. What other files hold changes nothing."""
    rng = random.Random(f"{seed} {path}")
    functions = functions_of((TREE / path).read_text())
    return in_turns([mutants_of(path, *row, rng) for row in rng.sample(functions, len(functions))])


def in_turns(samples: Iterable[Iterator[Mutant]]) -> Iterator[Mutant]:
    """The first of each, then the second of each."""
    return (one for one in chain.from_iterable(zip_longest(*samples)) if one is not None)


def files(*under: str) -> list[str]:
    """Files that git tracks or would track."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *under]
    out = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(path for path in out.splitlines() if (ROOT / path).is_file())


def module_of(path: str) -> str:
    """The name by which a file is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def sources(*under: str) -> list[str]:
    """Files of ours in which bugs are planted."""
    return [path for path in files(*under) if path.endswith(".py") and not any(part in path for part in LEFT_OUT)]


def copy_tree() -> None:
    """A fresh copy, in which the tests run."""
    shutil.rmtree(TREE, ignore_errors=True)
    for path in files():
        (TREE / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, TREE / path)
    for path in (".venv", "static/node_modules"):
        if (ROOT / path).exists():
            (TREE / path).symlink_to((ROOT / path).resolve())
    make = f"from pathlib import Path; from tests.migrated import migrated_copy; migrated_copy(Path({str(MIGRATED)!r}))"
    subprocess.run([sys.executable, "-c", make], cwd=TREE, check=True)


def pytest(arguments: list[str], limit_s: float | None, **more: str) -> subprocess.CompletedProcess[str]:
    """Run tests in the copy, at low priority. Raises subprocess.TimeoutExpired."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "DATABASE_URL")}
    env |= {"ADAEXPLORE_DATA": str(KEPT / "data"), "PYTHONPYCACHEPREFIX": str(KEPT / "bytecode")}
    env |= {"MIGRATED": str(MIGRATED), **more}
    command = ["nice", "-n", "15", *PYTEST, *arguments]
    return subprocess.run(command, cwd=TREE, env=env, capture_output=True, text=True, timeout=limit_s, check=False)


def reach_of(data: Path) -> dict[str, list[str]]:
    """Function -> tests that reach it, from a coverage file with a context for each test."""
    held, reach = CoverageData(str(data)), dict[str, list[str]]()
    held.read()
    for name in held.measured_files():
        path = str(Path(name).relative_to(TREE))
        lines = held.contexts_by_lineno(name)
        for function, first, last in functions_of((TREE / path).read_text()):
            seen = {test.partition("|")[0] for line in range(first, last + 1) for test in lines.get(line, ())}
            reach[f"{path}::{function}"] = sorted(seen - {""})
    return reach


def known(anew: bool) -> dict[str, dict[str, Any]]:
    """`reach`, and the `seconds` of each test; taken where nothing is kept, by a run of the suite in one process."""
    data = KEPT / "coverage"
    if anew or not REACH.exists():
        cover = [f"--cov={app}" for app in APPS] + ["--cov-context=test", "--cov-report=", "--create-db"]
        told = ["--durations=0", "--durations-min=0"]
        done = pytest(["tests", "--ignore=tests/browser", *CHOSEN, *cover, *told], None, COVERAGE_FILE=str(data))
        REACH.write_text(json.dumps({"reach": reach_of(data), "seconds": seconds_of(done.stdout)}))
    return dict(json.loads(REACH.read_text()))


def seconds_of(output: str) -> dict[str, float]:
    """How long each test took, by pytest's own list; those that failed are not in it."""
    seconds = Counter[str]()
    for took, test in re.findall(r"^([0-9.]+)s (?:call|setup|teardown) +(\S.*)$", output, re.MULTILINE):
        seconds[test] += float(took)  # type: ignore[assignment]
    for test in re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE):
        seconds.pop(test, None)
    return dict(seconds)


class Choice:
    """Which tests run for a mutant; with `near` those of `near_to` go first."""

    def __init__(self, near: bool, reach: dict[str, list[str]], seconds: dict[str, float]) -> None:
        self.near, self.reach, self.seconds = near, reach, seconds
        self.breadth = Counter(test for tests in reach.values() for test in tests)
        self.files = [path for path in files("tests") if Path(path).name.startswith("test_") and "browser" not in path]
        self.graph = grimp.build_graph(*APPS, "tests", cache_dir=None)

    def turns(self, mutant: Mutant) -> Iterator[list[str]]:
        """Lists of tests, each of which runs where the ones before noticed nothing."""
        near = self.near_to(mutant.path) if self.near else []
        if near:
            yield [*near, "-m", f"{CHOSEN[1]} and not bench"]
            yield [*near[:MOST_FILES], "-m", f"{CHOSEN[1]} and bench"]
        if not near or f"{mutant.path}::{mutant.function}" in self.reach:
            yield self.of(mutant)

    def near_to(self, path: str) -> list[str]:
        """Files of tests: those that import the module first, then those that bear its name or import from its folder,
        then others of its room."""
        name, at = module_of(path), Path(path)
        direct = self._importers({name})
        beside = self._importers(self.graph.find_descendants(name.rpartition(".")[0]))
        beside |= {one for one in self.files if at.stem in one and one.startswith(f"tests/{at.parts[0]}/")}
        room = {one for one in self.files if one.startswith(f"tests/{at.parent}/")}
        return sorted(direct | beside | room, key=lambda one: (one not in direct, one not in beside, one))[:MOST_NEAR]

    def _importers(self, names: set[str]) -> set[str]:
        users = set[str]().union(*(self.graph.find_modules_that_directly_import(one) for one in names))
        return {one for one in self.files if module_of(one) in users}

    def of(self, mutant: Mutant) -> list[str]:
        """Those that reach the function, the most particular first; for a child's code, files that may."""
        seen = self.reach.get(f"{mutant.path}::{mutant.function}", ())
        seen = sorted((test for test in seen if self._there(test)), key=lambda test: (self.breadth[test], test))
        if seen:
            took = accumulate(self.seconds[test] for test in seen)
            return [test for test, so_far in zip(seen, took, strict=True) if so_far < TESTS_S] or seen[:1]
        name = module_of(mutant.path)
        users = self.graph.find_downstream_modules(name) if name in self.graph.modules else set()
        near = [path for path in self.files if module_of(path) in users]
        started = [path for path in self.files if "pytest.mark.bench" in (TREE / path).read_text()]
        return [*(near or started)[:MOST_FILES], *CHOSEN]

    def _there(self, test: str) -> bool:
        """Whether a test passed, and still has its name."""
        path, _, name = test.partition("::")
        return (
            test in self.seconds
            and (TREE / path).exists()
            and f"def {name.partition('[')[0].rpartition(':')[2]}(" in (TREE / path).read_text()
        )


def judge(mutant: Mutant, tests: list[str], sound: set[str]) -> Mutant:
    """The mutant with `found`: killed, survived or untested. One that never ends is killed, unless the tests do not end
    without it either. What fails must pass without the change: such tests are kept in `sound`."""
    path = TREE / mutant.path
    whole = path.read_text()
    try:
        path.write_text(mutant.code)
        os.utime(path, (moment := random.randrange(10**9), moment))  # so that no bytecode of another text is taken
        done = pytest(["-x", "--reuse-db", *tests], EACH_S)
    except subprocess.TimeoutExpired:
        shutil.rmtree(KEPT / "data", ignore_errors=True)
        done = None
    finally:
        path.write_text(whole)
    if done is None:
        return replace(mutant, found="killed" if ends(tests) else "untested")
    if done.returncode == 4 and any("::" in test for test in tests):  # one of them has another name now
        return judge(mutant, sorted({test.partition("::")[0] for test in tests})[:MOST_FILES], sound)
    failed = set(re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)) - sound
    if done.returncode == 1 and failed:
        if pytest(["--reuse-db", *failed], None).returncode != 0:
            return judge(mutant, [*tests, *(f"--deselect={test}" for test in failed)], sound)
        sound |= failed
    return replace(mutant, found=VERDICTS.get(done.returncode, "untested"))


def ends(tests: list[str]) -> bool:
    """Whether these end in time without a change."""
    try:
        pytest(["-x", "--reuse-db", *tests], EACH_S)
    except subprocess.TimeoutExpired:
        shutil.rmtree(KEPT / "data", ignore_errors=True)
        return False
    return True


def judged(mutant: Mutant, turns: Iterable[list[str]], sound: set[str]) -> Mutant:
    """The mutant with what the first list of tests that notices it says; a later one need not have a test for it."""
    found = replace(mutant, found="untested")
    for tests in turns:
        again = judge(mutant, tests, sound)
        found = found if again.found == "untested" else again
        if found.found == "killed":
            break
    return found


def summary(rows: list[Mutant], seed: int) -> str:
    """The score of each room, and every survivor with its diff, as Markdown."""
    rooms = defaultdict[str, Counter[str]](Counter)
    for row in rows:
        rooms[str(Path(row.path).parent)][row.found] += 1
    lines = ["# Planted bugs", "", f"Seed {seed}.", "", "| room | planted | killed | survived | untested |"]
    lines.append("|---|---|---|---|---|")
    for room, found in sorted(rooms.items()):
        lines.append(f"| {room} | {found.total()} | {found['killed']} | {found['survived']} | {found['untested']} |")
    for row in rows:
        if row.found != "killed":
            title = f"{row.path} `{row.function}`: {row.kind}, {row.found}"
            lines += ["", title, "", "```diff", row.diff, "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    ask = argparse.ArgumentParser(description="Plant bugs and check that tests fail.")
    ask.add_argument(
        "--count", type=int, help="functions of each app (20), or of each of the paths instead of every mutant"
    )
    ask.add_argument("--apps", nargs="+", choices=APPS, default=APPS, help="sample functions of these only")
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--minutes", type=float, default=60, help="begin no mutant after that")
    ask.add_argument("--paths", nargs="+", help="every mutant of these files and folders instead of a sample")
    ask.add_argument("--most", type=int, help="with --paths: of each file so many, drawn by the seed")
    ask.add_argument("--skip", type=int, default=0, help="leave the first out, such as those of an earlier run")
    ask.add_argument("--near", action="store_true", help="run the tests near the changed file first; needs no coverage")
    ask.add_argument("--cover", action="store_true", help="find anew which tests reach what")
    given = ask.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    copy_tree()
    seen = known(given.cover) if given.cover or not given.near or REACH.exists() else {"reach": {}, "seconds": {}}
    choice, rows, until = Choice(given.near, **seen), list[Mutant](), time.monotonic() + 60 * given.minutes
    if given.paths and given.count:
        drawn = in_turns([sample(sources(path), given.count, given.seed) for path in given.paths])
    elif given.paths:
        drawn = in_turns([islice(in_file(path, given.seed), given.most) for path in sources(*given.paths)])
    else:
        drawn = in_turns([sample(sources(app), given.count or 20, given.seed) for app in given.apps])
    sound = set[str]()
    for mutant in takewhile(lambda _: time.monotonic() < until, islice(drawn, given.skip, None)):
        rows.append(row := judged(mutant, choice.turns(mutant), sound))
        print(f"{row.found:9} {row.path}::{row.function} ({row.kind})", flush=True)
        (KEPT / "summary.md").write_text(summary(rows, given.seed))


if __name__ == "__main__":
    main()
