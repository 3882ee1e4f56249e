"""The commands that carry jobs to a device of another machine, and its outcomes back."""

from __future__ import annotations

from django.conf import settings

from judge.devices.models import Device


def carried_by_itself() -> bool:
    """Whether jobs and outcomes go through a shared folder: then only the other machine has to judge."""
    return bool(settings.JUDGE_FOLDER)


def carry_commands(device: Device, chosen: str) -> tuple[str, ...]:
    """What a person calls: here, there, and here again; with a shared folder only there. `chosen`: the options that
    choose the jobs, such as `--run 7`."""
    if carried_by_itself():
        return (serve_command(device, settings.JUDGE_FOLDER),)
    files = "--jobs jobs.jsonl --out outcomes.jsonl"
    return (
        f"manage.py judge_export_jobs {chosen} --out jobs.jsonl",
        f"python -m judge.bench {_options(device)} {files}",
        "manage.py judge_import_outcomes outcomes.jsonl",
    )


def serve_command(device: Device, place: str) -> str:
    """What judges there whatever waits in the folder or at the server `place`."""
    return f"python -m judge.bench serve {place} {_options(device)}"


def _options(device: Device) -> str:
    there = "cuda:0" if device.is_gpu else "interpreter"
    return f"--device {there} --key {device.name.replace(':', '-')}.key"
