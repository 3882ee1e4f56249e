"""Writes a search, or one of its kernels, in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from search.interchange.exports import OF_NODE, NothingToExport, nodes_to_export
from search.interchange.packed import OF_RUN, run_folder_files, run_stem
from search.interchange.views import export_record
from search.management.console import file_errors, refusals, row_of
from search.records.models import Node, Run


class Command(BaseCommand):
    help = (
        "Export a search as AdaExplore's run folder (folder, zip) or packed JSON (packed), or with --node one kernel "
        "as a flashinfer-bench solution (solution), a .py (kernel) or an archive with its proof (proof)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=int, metavar="RUN")
        parser.add_argument("--as", dest="form", choices=["folder", *OF_RUN, *OF_NODE], default="zip")
        parser.add_argument("--node", type=int, metavar="NUMBER")
        parser.add_argument("--out", type=Path, default=Path(), metavar="DIR", help="where to write; default: here")

    def handle(self, *args: Any, **options: Any) -> None:
        run = row_of(Run.objects.select_related("problem", "device"), options["run"], "search")
        form, node, out = options["form"], self._node(run, options), options["out"]
        with refusals(NothingToExport), file_errors(out, "written"):
            out.mkdir(parents=True, exist_ok=True)
            if form == "folder":
                written = _folder(run, out)
            else:
                name, body = OF_NODE[form](node) if node else OF_RUN[form](run)
                written = out / name
                written.write_bytes(body)
        export_record(run=run, what=form, user=None, node=node.number if node else None)
        self.stdout.write(str(written))

    def _node(self, run: Run, options: dict[str, Any]) -> Node | None:
        if (options["node"] is None) == (options["form"] in OF_NODE):
            forms = ", ".join(OF_NODE)
            raise CommandError(f"--node goes with {forms}, and these need it. Give both, or neither.")
        if options["node"] is None:
            return None
        node = nodes_to_export().filter(run=run, number=options["node"]).first()
        if node is None:
            raise CommandError(f"Search {run.pk} has no node {options['node']}.")
        return node


def _folder(run: Run, out: Path) -> Path:
    folder = out / run_stem(run)
    folder.mkdir(exist_ok=True)
    for name, text in run_folder_files(run).items():
        (folder / name).write_bytes(text.encode("utf-8", "backslashreplace"))
    return folder
