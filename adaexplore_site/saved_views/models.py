"""Views that people saved by name."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q


class SavedView(models.Model):
    """A list as somebody filtered and sorted it, by name. The address is made of a known page and its own parameters,
    so that it leads nowhere else."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    place = models.CharField(max_length=40)  # name of the page's route: see adaexplore_site.saved_views.services
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=600, blank=True)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    deleted_at = models.DateTimeField(null=True, blank=True)  # kept, so that Undo finds it

    class Meta:
        app_label = "search"
        ordering = ("name", "id")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "place", "name"], condition=Q(deleted_at=None), name="saved_view_name_once"
            )
        ]
        indexes = [models.Index(fields=["place"], name="saved_view_place")]  # the views of a page

    def __str__(self) -> str:
        return f"{self.name} of {self.place}"
