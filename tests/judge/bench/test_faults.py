"""What is told of an exception in uploaded code: its kind, and words with its own frames and no path of the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from judge.bench.foreign.faults import describe_fault
from judge.bench.foreign.sources import raised


class OutOfBounds(Exception):
    """The kind goes by the name."""

    def __init__(self, reason: object) -> None:
        super().__init__("beside the tensor")
        self.reason = reason


@pytest.fixture
def fault(tmp_path: Path) -> Callable[..., tuple[Exception, Path]]:
    """What a file with this body of a function raises, and the file."""

    def run(body: str, **names: object) -> tuple[Exception, Path]:
        path = tmp_path / "kernel.py"
        path.write_text(f"def forward():\n    {body}\n")
        exec(compile(path.read_text(), str(path), "exec"), names)
        with pytest.raises(Exception) as caught:
            names["forward"]()  # type: ignore[operator]
        return caught.value, path

    return run


def test_a_fault_is_told_with_the_frames_of_the_file(fault):
    found = describe_fault(*fault("raise ValueError('no')"))
    where = "\n  File \"kernel.py\", line 2, in forward\n    raise ValueError('no')"
    assert found == {"kind": "exception", "reason": "", "message": f"ValueError: no{where}"}


def test_the_first_cause_of_a_known_kind_is_told_with_the_frames_of_what_came_out(fault):
    found = describe_fault(*fault("raise RuntimeError('outer') from MemoryError('inner')"))
    assert found["kind"] == "oom"
    assert found["message"].startswith('MemoryError: inner\n  File "kernel.py", line 2, in forward')


def test_a_cause_from_elsewhere_has_no_frames_of_the_file(tmp_path):
    error = RuntimeError("outer")
    error.__cause__ = MemoryError("inner")
    assert describe_fault(error, tmp_path / "kernel.py")["message"] == "MemoryError: inner"


@pytest.mark.parametrize(
    ("reason", "told"), [("compile.incomplete", "compile.incomplete"), ("load.died", ""), ("run.oom", ""), (7, "")]
)
def test_a_reason_is_told_where_it_is_one(fault, reason, told):
    found = describe_fault(*fault("raise error", error=OutOfBounds(reason)))
    assert (found["kind"], found["reason"]) == ("bounds", told)


def test_what_uploaded_code_raised_while_it_was_loaded_is_told_with_its_line(fault, tmp_path):
    error = raised("load.import", "Importing the module", *fault("open('{}')"))
    assert (error.reason, error.line) == ("load.import", 2)
    assert error.message.startswith("Importing the module raised FileNotFoundError: ")
    assert "kernel.py" in error.message and str(tmp_path) not in error.message
