from django.db import migrations

from judge.values import canonical_hash

CHUNK = 500


def rehash(model, source, name, *more):
    """Give every row of `model` with a text the hash of what is loaded of it; yields (row, hash before)."""
    changed = []
    for row in model.objects.exclude(**{source: ""}).only(source, name, *more).order_by("pk").iterator(CHUNK):
        before = getattr(row, name)
        setattr(row, name, canonical_hash(getattr(row, source)))
        if getattr(row, name) == before:
            continue
        yield row, before
        changed.append(row)
        if len(changed) == CHUNK:
            model.objects.bulk_update(changed, [name])
            changed.clear()
    model.objects.bulk_update(changed, [name])


def forwards(apps, schema_editor):
    """Where several texts had one hash, a race was between the newest of them."""
    renamed = {}
    places = ("problem_id", "device_id")
    for row, before in rehash(apps.get_model("judge", "Evaluation"), "source", "candidate_hash", *places):
        renamed[row.problem_id, row.device_id, before] = row.candidate_hash
    Race = apps.get_model("judge", "Race")
    races = []
    for race in Race.objects.iterator(CHUNK):
        place = (race.problem_id, race.device_id)
        race.first_hash = renamed.get((*place, race.first_hash), race.first_hash)
        race.second_hash = renamed.get((*place, race.second_hash), race.second_hash)
        races.append(race)
    Race.objects.bulk_update(races, ["first_hash", "second_hash"], batch_size=CHUNK)
    for _ in rehash(apps.get_model("judge", "BatchJob"), "source", "candidate_hash"):
        pass


class Migration(migrations.Migration):
    """The hash of a candidate is that of the text that is loaded, no longer that of its syntax tree."""

    dependencies = [("judge", "0013_problem_quarantine")]

    operations = [migrations.RunPython(forwards, migrations.RunPython.noop, elidable=True)]
