"""Rows of rules in prompts: what a search was started with, and the arm of each rule at each node."""

from __future__ import annotations

from typing import Any

from django.db import models

from memory.prompting.assignment import CONTROL, NO_ROOM, TREATMENT


class RunMemory(models.Model):
    """How a search uses and feeds memory, written at its start with the frozen rules. Without a row it uses none."""

    class Trust(models.TextChoices):
        REVIEWED = "reviewed"  # approved rules only
        AUTO = "auto"  # proposed ones with enough support, too, as in the publication

    run = models.OneToOneField("search.Run", on_delete=models.CASCADE, related_name="memory")
    uses = models.BooleanField(default=True)  # rules go into its prompts
    learns = models.BooleanField(default=False)  # its failures teach
    trust = models.CharField(max_length=8, choices=Trust.choices, default=Trust.REVIEWED)
    threshold = models.PositiveIntegerField(default=3)  # support that a rule needs
    budget_tokens = models.PositiveIntegerField(default=1500)  # of the block of rules in a prompt, estimated
    withhold = models.FloatField(default=0.1)  # probability that an eligible rule is left out on purpose
    toolchain = models.CharField(max_length=120, blank=True)
    beyond = models.PositiveIntegerField(default=0)  # active rules that no prompt of this budget could reach
    elsewhere: Any = models.JSONField(default=dict, blank=True)  # an imported search's rules and uses
    frozen_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"memory of run {self.run_id}"


class FrozenRule(models.Model):
    """A rule version that is active in a search, `place` 1, 2, ... in the order of use."""

    memory = models.ForeignKey(RunMemory, on_delete=models.CASCADE, related_name="rules")
    version = models.ForeignKey("memory.RuleVersion", on_delete=models.PROTECT, related_name="+")
    place = models.PositiveIntegerField()
    score: Any = models.JSONField(default=dict, blank=True)  # lift and support as they were: why it has this place

    class Meta:
        ordering = ("memory", "place")
        constraints = [models.UniqueConstraint(fields=["memory", "version"], name="frozen_rule_once")]

    def __str__(self) -> str:
        return f"run memory {self.memory_id} #{self.place}"


class RuleUse(models.Model):
    """The arm of one eligible rule at one node: in the prompt, withheld at random, or without room."""

    class Arm(models.TextChoices):
        TREATMENT = TREATMENT, "Shown"
        CONTROL = CONTROL, "Withheld"
        NO_ROOM = NO_ROOM, "Left Out"  # in neither arm: the token budget was used up

    node = models.ForeignKey("search.Node", on_delete=models.CASCADE, related_name="rule_uses")
    rule = models.ForeignKey("memory.Rule", on_delete=models.CASCADE, related_name="uses")
    version = models.ForeignKey("memory.RuleVersion", on_delete=models.PROTECT, related_name="uses")
    arm = models.CharField(max_length=8, choices=Arm.choices)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "version"], name="rule_use_once")]
        indexes = [models.Index(fields=["rule", "arm"], name="rule_use_arms")]  # lift

    def __str__(self) -> str:
        return f"rule {self.rule_id} {self.arm} at node {self.node_id}"
