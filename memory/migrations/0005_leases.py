from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("memory", "0004_batch")]

    operations = [migrations.RenameField(model_name="adaptrun", old_name="driven_until", new_name="lease_until")]
