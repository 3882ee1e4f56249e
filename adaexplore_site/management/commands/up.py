"""`manage.py up`: one command that starts every process, prints the address and a one-time sign-in link."""

from __future__ import annotations

import fcntl
import shutil
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFault
from django.db import connection
from django.utils import timezone

from adaexplore_site.accounts import signin
from adaexplore_site.core import env, private_files
from adaexplore_site.operations import embedded
from adaexplore_site.operations.supervisor import CannotStart, Role, Supervisor
from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.report import warnings

FREE_BYTES = 300 << 20


class Command(BaseCommand):
    help = "Start everything: web server, workers, scheduler and, without REDIS_URL, an embedded Valkey server."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=env.text("HOST", "127.0.0.1"), help="address to listen on")
        parser.add_argument("--port", type=int, default=None, help="port to listen on (default: PORT or 8000)")
        parser.add_argument("--io-threads", type=int, default=8, help="proposals worked on at once")

    def handle(self, *, host: str, port: int | None, io_threads: int, **_: Any) -> None:
        begun = time.monotonic()
        port = port if port is not None else _port()
        lock = _claim(env.data_dir())
        _check_disk(env.data_dir())
        _check_port(host, port)
        _check_sandbox()
        self._prepare()
        roles = self._roles(host, port, io_threads)
        supervisor = Supervisor(roles, env.data_dir() / "logs", self._say, on_death=_free_leases)
        signal.signal(signal.SIGTERM, _interrupt)
        signal.signal(signal.SIGINT, _interrupt)  # also when started with "&", where the shell has it ignored
        try:
            supervisor.start()
            self._greet(host, port, time.monotonic() - begun)
            supervisor.run()
        except CannotStart as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            self._say("Stopping. Unfinished searches continue at the next start.")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave processes behind
            supervisor.stop()
            signin.address_keep(None)
            lock.close()

    def _prepare(self) -> None:
        try:
            call_command("migrate", verbosity=0, interactive=False)
            call_command("seed_samples", verbosity=0)
            from judge.devices.services import devices_sync

            devices_sync()
            _free_leases()
        except DatabaseFault as error:
            raise CommandError(_database_help(error)) from error
        except OSError as error:
            raise CommandError(f"{error}. Free some disk space or set ADAEXPLORE_DATA to another folder.") from error

    def _roles(self, host: str, port: int, io_threads: int) -> list[Role]:
        roles: list[Role] = []
        if not env.text("REDIS_URL"):
            roles.append(_broker())
        python = sys.executable
        worker = [python, "-m", "celery", "-A", "adaexplore_site", "worker", "--loglevel", "INFO", "--without-mingle",
                  "--without-gossip"]  # fmt: skip
        small = {"OMP_NUM_THREADS": "1"}
        roles.append(
            Role(
                "web",
                [python, "-m", "adaexplore_site.operations.web", "-b", host, "-p", str(port),
                 "--websocket_timeout", "-1"],
                ready=lambda: _answers_http(host, port),
            )
        )  # fmt: skip
        roles.append(
            Role("io", [*worker, "-Q", "io", "-P", "threads", "-c", str(io_threads), "-n", "io@%h"], env=small)
        )
        from judge.devices.services import served_devices

        for device in served_devices():
            name = device.queue
            roles.append(Role(name, [*worker, "-Q", name, "-P", "solo", "-n", f"{name}@%h"], env=small))
            if device.is_gpu and not any(role.name == "compile" for role in roles):
                roles.append(Role("compile", [*worker, "-Q", "compile", "-P", "solo", "-n", "compile@%h"], env=small))
        roles.append(Role("beat", [python, "-m", "celery", "-A", "adaexplore_site", "beat", "--loglevel", "INFO"]))
        return roles

    def _greet(self, host: str, port: int, seconds: float) -> None:
        shown = "localhost" if host in {"127.0.0.1", "0.0.0.0", "::"} else host
        address = f"http://{shown}:{port}"
        signin.address_keep(address)
        self._say(f"AdaExplore Dashboard is up after {seconds:.1f} s: {address}/")
        self._say(f"Sign in once with: {address}{signin.link_path(signin.first_admin())}")
        for line in warnings(settings.JUDGE_MIN_SANDBOX):
            self._say(line)
        for what, hint in private_files.faults(env.data_dir()):
            self._say(f"WARNING: {what} {hint}")
        self._say(f"Logs: {env.data_dir() / 'logs'}. Ctrl-C stops everything; searches resume at the next start.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def _check_sandbox() -> None:
    try:
        required_layers(settings.JUDGE_MIN_SANDBOX)
    except ValueError as error:
        raise CommandError(f"JUDGE_MIN_SANDBOX: {error}") from error


def _broker() -> Role:
    """The embedded server, on its private socket and with its password."""
    try:
        server = embedded.binary()
    except embedded.NoServer as error:
        raise CommandError(str(error)) from error
    path, password = env.embedded_socket(), env.embedded_password()
    path.unlink(missing_ok=True)
    command = embedded.argv(server, embedded.configure(env.data_dir(), path, password))
    return Role("valkey", command, ready=lambda: embedded.answers(path, password))


def _free_leases(died: Role | None = None) -> None:
    """Whatever a dead process worked on goes on with the next reap; without an argument: at the start of everything."""
    from search.engine.leases import leases_release

    own_queue = not env.text("REDIS_URL")
    try:
        # A worker takes messages ahead: those die with it. Sending one twice is harmless, waiting for it is not.
        queue_lost = own_queue and (died is None or died.name not in ("web", "beat"))
        leases_release(now=timezone.now(), queue_lost=queue_lost)
    except DatabaseFault:
        pass  # the leases run out by themselves
    finally:
        connection.close()  # the supervisor keeps no connection while it only watches


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _claim(folder: Path) -> IO[str]:
    """Hold the data folder: two supervisors on one folder would run every task twice."""
    handle = (folder / "up.lock").open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise CommandError(
            f"The dashboard already runs on the data folder {folder}. Stop it first, or set ADAEXPLORE_DATA to another."
        ) from error
    return handle


def _check_disk(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < FREE_BYTES:
        raise CommandError(
            f"Only {free >> 20} MiB are free at {folder}; {FREE_BYTES >> 20} MiB are needed. "
            "Free some disk space or set ADAEXPLORE_DATA to a folder on another disk."
        )


def _port() -> int:
    """PORT, as the environment says. Raises CommandError."""
    try:
        return env.integer("PORT", 8000, minimum=1, maximum=65535)
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from error


def _check_port(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CommandError(
                f"Cannot listen on {host}:{port} ({error.strerror}). Choose another port: PORT=8001 make run"
            ) from error


def _answers_http(host: str, port: int) -> bool:
    target = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    try:
        with socket.create_connection((target, port), timeout=1.0):
            return True
    except OSError:
        return False


def _database_help(error: Exception) -> str:
    engine = settings.DATABASES["default"]["ENGINE"]
    if "sqlite" in str(engine):
        return f"The database in {env.data_dir()} cannot be used ({error}). Is the disk full or the folder read-only?"
    return f"The database named by DATABASE_URL cannot be used ({error}). Is the server up, and the name right?"
