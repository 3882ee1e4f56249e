from importlib import import_module

from django.db import migrations

rehash = import_module("judge.migrations.0014_hashes_of_loaded_texts").rehash


def forwards(apps, schema_editor):
    for _ in rehash(apps.get_model("search", "Node"), "source", "source_hash"):
        pass


class Migration(migrations.Migration):
    """The hash of a candidate is that of the text that is loaded, no longer that of its syntax tree."""

    dependencies = [("search", "0017_leases")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop, elidable=True)]
