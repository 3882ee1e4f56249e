from django.db import migrations


class Migration(migrations.Migration):
    """The row's class is called as it is: an entry of the audit log. The table keeps its name."""

    dependencies = [("adaexplore_site", "0003_webhooks")]

    operations = [migrations.RenameModel(old_name="Action", new_name="AuditEntry")]
