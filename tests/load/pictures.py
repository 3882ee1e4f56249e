"""Time of the page of pictures: `python -m tests.load.pictures [nodes] [rounds]`, a folder of its own.

Set DATABASE_URL for PostgreSQL. The garbage collector is set as the server sets it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    nodes, rounds = (*given, *(10_000, 9)[len(given) :])
    with tempfile.TemporaryDirectory(prefix="adaexplore-pictures-") as folder:
        os.environ.update(ADAEXPLORE_DATA=folder, DJANGO_SETTINGS_MODULE="tests.settings")
        import django

        django.setup()
        from django.core.management import call_command

        from adaexplore_site import asgi
        from tests.load.forest import forest
        from tests.pages import client_of

        assert asgi.application
        call_command("migrate", verbosity=0)
        run, viewer = forest(nodes), client_of("viewer")
        took = []
        for _ in range(rounds + 1):
            begun = time.perf_counter()
            assert viewer.get(f"/s/{run.pk}/pictures/", headers={"host": "localhost"}).status_code == 200
            took.append((time.perf_counter() - begun) * 1000)
        first, *later = took
        print(f"{nodes} nodes: median {statistics.median(later):.0f} ms, worst {max(later):.0f}, first {first:.0f}")


if __name__ == "__main__":
    main()
