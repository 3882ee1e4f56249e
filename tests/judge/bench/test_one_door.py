"""Raw messages of a child are read in the exchange alone; what leaves it are checked values."""

from __future__ import annotations

import ast
from pathlib import Path

BENCH = Path(__file__).resolve().parents[3] / "judge/bench"
# Who else may take a message off a channel, and from whom: nobody of them hears foreign code.
READERS = {
    "deciding/referee_cache.py": "the runner's next assignment",
    "processes/child.py": "the runner's assignment",
    "processes/zygote.py": "the runner's orders",
    "processes/forkserver.py": "its zygote, which runs no foreign code",
    "processes/inspection.py": "the runner's answer to the referee",
    "processes/placing.py": "the runner's answer to the referee",
    "processes/subject_starter.py": "the runner's answer to the referee",
    "processes/child_group.py": "for `heard`, which the runner calls on each message",
    "processes/children.py": "for `heard`",
    "subjects/subject.py": "the referee's questions",
    "probing/probe.py": "a probe, which runs no foreign code",
}
JUDGES = ("judging", "deciding", "timing", "audit", "admission")


def parsed() -> list[tuple[str, ast.Module]]:
    return [(str(path.relative_to(BENCH)), ast.parse(path.read_text())) for path in sorted(BENCH.rglob("*.py"))]


def test_only_the_exchange_takes_messages_off_a_channel():
    found = {
        name
        for name, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("receive", "pump")
        and not name.startswith("exchange/")
        and ast.unparse(node.func) not in ("self.pump", "server.pump", "child.server.pump")  # of a zygote's reports
    }
    assert found == set(READERS)


def test_who_judges_knows_no_raw_message():
    for name, tree in parsed():
        if name.startswith(JUDGES):
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module == "judge.bench.exchange.wire":
                    assert {one.name for one in node.names} <= {"Channel", "WireClosed"}, name


def test_a_contact_gives_claims_and_nothing_else():
    tree = ast.parse((BENCH / "exchange/contact.py").read_text())
    (contact,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Contact")
    given = {
        one.name: ast.unparse(one.returns) for one in contact.body if isinstance(one, ast.FunctionDef) and one.returns
    }
    assert (given["ask"], given["answer"]) == ("Answer", "Answer")
    assert {given[name] for name in ("tell", "begin_to_construct", "reconstruct")} == {"None"}  # answer() alone reads
    assert [name for name, kind in given.items() if "Message" in kind] == ["_received"]
    reads = [node for node in ast.walk(contact) if isinstance(node, ast.Attribute) and node.attr == "receive"]
    assert len(reads) == 1
