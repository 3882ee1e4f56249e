
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('judge', '0007_compile_devices'),
        ('search', '0003_lab_results'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Campaign',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('title', models.CharField(max_length=160)),
                ('proposer', models.CharField(max_length=20)),
                ('proposer_options', models.JSONField(blank=True, default=dict)),
                ('params', models.JSONField(default=dict)),
                ('seed', models.BigIntegerField(default=0)),
                ('seeds', models.CharField(choices=[('same', 'Same'), ('spread', 'Spread')], default='spread', max_length=6)),
                ('steps', models.PositiveIntegerField()),
                ('at_once', models.PositiveSmallIntegerField(default=1)),
                ('concurrency', models.PositiveSmallIntegerField(default=1)),
                ('state', models.CharField(choices=[('running', 'Running'), ('paused', 'Paused'), ('stopped', 'Stopped'), ('finished', 'Finished')], default='running', max_length=10)),
                ('origin', models.CharField(default='web', max_length=10)),
                ('driven_until', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('device', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='campaigns', to='judge.device')),
                ('owner', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'ordering': ('-id',),
            },
        ),
        migrations.CreateModel(
            name='CampaignEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('place', models.PositiveIntegerField()),
                ('state', models.CharField(choices=[('waiting', 'Waiting'), ('started', 'Started'), ('refused', 'Refused'), ('skipped', 'Skipped')], default='waiting', max_length=8)),
                ('reason', models.TextField(blank=True)),
                ('asked_at', models.DateTimeField(blank=True, null=True)),
                ('campaign', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='entries', to='search.campaign')),
                ('problem', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='campaign_entries', to='judge.problem')),
                ('run', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='campaign_entry', to='search.run')),
            ],
            options={
                'ordering': ('campaign', 'place'),
            },
        ),
        migrations.AddIndex(
            model_name='campaign',
            index=models.Index(fields=['state'], name='campaign_state'),
        ),
        migrations.AddConstraint(
            model_name='campaign',
            constraint=models.CheckConstraint(condition=models.Q(('at_once__gte', 1), ('concurrency__gte', 1), ('steps__gte', 1)), name='campaign_has_a_budget'),
        ),
        migrations.AddConstraint(
            model_name='campaignentry',
            constraint=models.UniqueConstraint(fields=('campaign', 'problem'), name='campaign_problem_once'),
        ),
        migrations.AddConstraint(
            model_name='campaignentry',
            constraint=models.UniqueConstraint(fields=('campaign', 'place'), name='campaign_place_once'),
        ),
        migrations.AddConstraint(
            model_name='campaignentry',
            constraint=models.CheckConstraint(condition=models.Q(('run__isnull', True), ('state', 'started'), _connector='OR'), name='campaign_run_is_started'),
        ),
    ]
