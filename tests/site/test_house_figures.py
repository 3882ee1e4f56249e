"""The figures of a tree, on a tree small enough to be counted by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.house_figures import figures, main, text_of

FILES = {
    "adaexplore_site/__init__.py": "",
    "adaexplore_site/urls.py": "urlpatterns = []\n",
    "adaexplore_site/gate.py": '"""Doc."""\n\n# why\nX = 1  # here\n',
    "judge/bench/one.py": "def a():\n    try:\n        return 1\n    except (OSError, Exception):\n        return 2\n",
    "judge/bench/two.py": "class B:\n    async def b(self):\n        return 1\n",
    "judge/selftest/honest/kernel.py": "x = 1\n" * 40,
    "judge/samples/relu.py": "x = 1\n" * 10,
    "memory/migrations/0001_memory.py": "x = 1\n" * 20,
    "search/long.py": "x = 1\n" * 501,
    "templates/base.html": "{% load x %}\n{# no #}\n<p>\n\n</p>\n",
    "static/js/a.js": "// no\nlet a = 1;\n/* no\nno */\n",
    "static/node_modules/d3/index.js": "no\n",
    "tests/test_a.py": "def test_a():\n    assert True\n",
    "tests/benchmarks/comparison/candidates/k.py": "x = 1\n",
    "tests/benchmarks/comparison/contest.py": "x = 1\ny = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_lines_are_counted_without_corpora_and_migrations(tree):
    found = figures(tree)["lines"]
    code = sum(text.count("\n") for name, text in FILES.items() if name.startswith(("a", "judge/bench", "search")))
    assert found["by app"]["all"]["lines"] == code + 5 + 4
    assert found["by app"]["all"] | {"files": 0, "lines": 0, "code lines": 0} == {
        "files": 0, "lines": 0, "code lines": 0, "with corpora and migrations": code + 9 + 70, "of them corpora": 50,
        "of them migrations": 20,
    }  # fmt: skip
    assert found["by app"]["adaexplore_site"]["code lines"] == 3  # without the blank line and the comment
    assert found["by kind"]["templates"]["code lines"] == 3
    assert found["by kind"]["JavaScript"]["code lines"] == 1


def test_functions_catches_rooms_and_loose_modules_are_found(tree):
    found = figures(tree)
    python = found["python"]
    assert (python["modules"], python["functions"], python["classes"]) == (6, 2, 1)
    assert python["function length"]["max"] == 5 and python["function length"]["median"] == 3.5
    assert (python["try"], python["broad excepts"]) == (1, 1)
    assert found["loose modules"] == {"adaexplore_site": ["gate"], "judge": [], "memory": [], "search": ["long"]}
    assert found["rooms"]["rooms"] == 1 and found["rooms"]["under 3 files"] == {"judge/bench": 2}
    assert found["files over 500 lines"] == {"search/long.py": 501}


def test_benchmarks_are_neither_tests_nor_product(tree):
    found = figures(tree)["tests"]
    assert (found["files"], found["lines"], found["benchmarks"]) == (1, 2, {"files": 1, "lines": 2})


def test_both_forms_are_printed_and_another_folder_is_refused(tree, tmp_path_factory, capsys):
    main(["--root", str(tree), "--json"])
    assert json.loads(capsys.readouterr().out) == figures(tree)
    main(["--root", str(tree)])
    assert capsys.readouterr().out == text_of(figures(tree))
    with pytest.raises(SystemExit):
        main(["--root", str(tmp_path_factory.mktemp("empty"))])
    assert "is no checkout of this project" in capsys.readouterr().err
