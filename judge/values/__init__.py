"""What crosses process borders in the judge: frozen values that check themselves. Standard library only."""

from judge.values.admission import DEGENERATE, AdmissionReport, EagerTime, Flaw, Roofline
from judge.values.hashes import canonical_hash, text_hash
from judge.values.jobs import Job, Limits, ProblemSpec, SealedCase
from judge.values.outcomes import Audit, CaseRecord, Finding, Outcome, Speedup, StageRecord, Timing
from judge.values.policy import DEFAULT_POLICY, Library, Mode, Policy, Precision
from judge.values.verdicts import BLAMING, PROTOCOL, UNCACHED, Basis, JudgeError, SpeedCall, Subject, Verdict

__all__ = [
    "BLAMING",
    "DEFAULT_POLICY",
    "DEGENERATE",
    "PROTOCOL",
    "UNCACHED",
    "AdmissionReport",
    "Audit",
    "Basis",
    "CaseRecord",
    "EagerTime",
    "Finding",
    "Flaw",
    "Job",
    "JudgeError",
    "Library",
    "Limits",
    "Mode",
    "Outcome",
    "Policy",
    "Precision",
    "ProblemSpec",
    "Roofline",
    "SealedCase",
    "SpeedCall",
    "Speedup",
    "StageRecord",
    "Subject",
    "Timing",
    "Verdict",
    "canonical_hash",
    "text_hash",
]
