from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("adaexplore_site", "0004_audit_entry")]

    operations = [
        migrations.RemoveIndex(model_name="webhookdelivery", name="webhook_delivery_due"),
        migrations.RenameField(model_name="webhookdelivery", old_name="due_at", new_name="lease_until"),
        migrations.RenameField(model_name="webhookdelivery", old_name="tries", new_name="attempts"),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["state", "lease_until"], name="webhook_delivery_due"),
        ),
    ]
