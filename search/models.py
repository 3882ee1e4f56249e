"""The rows of every room, where Django looks for them. Import each from its own room."""

from __future__ import annotations

from search.batches.models import Campaign, CampaignEntry
from search.lab.models import LabResult
from search.ledger.models import ModelPrice, SpendBudget, Spending
from search.rechecks.models import Recheck
from search.records.models import Node, Proposal, Run, RunEvent

__all__ = [
    "Campaign",
    "CampaignEntry",
    "LabResult",
    "ModelPrice",
    "Node",
    "Proposal",
    "Recheck",
    "Run",
    "RunEvent",
    "SpendBudget",
    "Spending",
]
