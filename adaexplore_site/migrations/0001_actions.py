"""The audit moves here from `search`, which made its table: rows stay where they are."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("search", "0006_steering"),
    ]
    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(
                    name="Action",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        ("verb", models.CharField(max_length=40)),
                        ("object_type", models.CharField(max_length=20)),
                        ("object_id", models.CharField(max_length=80)),
                        ("before", models.JSONField(blank=True, default=dict)),
                        ("after", models.JSONField(blank=True, default=dict)),
                        ("key", models.CharField(blank=True, max_length=64, null=True, unique=True)),
                        ("created_at", models.DateTimeField(auto_now_add=True)),
                        (
                            "actor",
                            models.ForeignKey(
                                blank=True,
                                null=True,
                                on_delete=models.deletion.SET_NULL,
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={
                        "db_table": "search_action",
                        "ordering": ("-created_at", "-id"),
                        "indexes": [models.Index(fields=["object_type", "object_id"], name="action_of_object")],
                    },
                )
            ]
        )
    ]
