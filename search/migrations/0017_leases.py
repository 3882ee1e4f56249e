from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("search", "0016_batch")]

    operations = [
        migrations.RenameField(model_name="campaign", old_name="driven_until", new_name="lease_until"),
        migrations.RemoveIndex(model_name="recheck", name="recheck_due"),
        migrations.RenameField(model_name="recheck", old_name="due_at", new_name="lease_until"),
        migrations.AddIndex(
            model_name="recheck", index=models.Index(fields=["state", "lease_until"], name="recheck_due")
        ),
        migrations.AlterField(  # the label of a state; the stored value stays
            model_name="node",
            name="state",
            field=models.CharField(
                choices=[
                    ("proposing", "Proposing"),
                    ("judging", "Judging"),
                    ("told", "Completed"),
                    ("cancelled", "Cancelled"),
                ],
                default="proposing",
                max_length=10,
            ),
        ),
    ]
