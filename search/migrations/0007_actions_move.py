"""The audit is the site's now: only the model leaves, its table stays."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("search", "0006_steering"), ("adaexplore_site", "0001_actions")]
    operations = [migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name="Action")])]
