"""A job as its children load it, and an outcome whose places are those of the text that was handed in."""

from __future__ import annotations

import dataclasses

from judge.values import Job, Outcome, canonical_text


def as_loaded(job: Job) -> Job:
    """The job with its kernels as children load them."""
    incumbent = None if job.incumbent is None else canonical_text(job.incumbent).text
    return dataclasses.replace(job, candidate=canonical_text(job.candidate).text, incumbent=incumbent)


def placed(outcome: Outcome, written: str) -> Outcome:
    """The outcome with places in the candidate as lines of what was `written`."""
    source = canonical_text(written)
    findings = tuple(
        dataclasses.replace(finding, message=source.in_source(finding.message)) for finding in outcome.findings
    )
    return dataclasses.replace(
        outcome, message=source.in_source(outcome.message), log=source.in_source(outcome.log), findings=findings
    )
