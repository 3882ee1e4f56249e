"""Imported searches carried the speedups their source claims in their titles; the whole label is in `imported`."""

import re

from django.db import migrations

FIGURE = re.compile(r"\d[\d.,]*\s?(?:[×xX](?!\w)|-?fold\b|times\b)")


def clean(apps, schema_editor):
    for run in apps.get_model("search", "Run").objects.filter(origin="import").only("title").iterator():
        if found := FIGURE.search(run.title):
            run.title = run.title[: found.start()].rstrip(" \t—–-:;,|(>→~≈<=")
            run.save(update_fields=["title"])


class Migration(migrations.Migration):
    dependencies = [("search", "0001_initial")]
    operations = [migrations.RunPython(clean, migrations.RunPython.noop, elidable=True)]
