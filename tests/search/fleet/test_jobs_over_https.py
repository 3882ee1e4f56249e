"""Jobs over HTTPS: taken with a token and the key of the device, leased, answered once."""

from __future__ import annotations

import io
import json
import math
import threading
import urllib.error
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from adaexplore_site.accounts.services import token_issue
from adaexplore_site.core.access import Role
from judge.batch.https import ServerPlace, ServerRefused, ask_body, read_token
from judge.batch.models import BatchJob
from judge.batch.serving import serve
from judge.bench.processes.stopping import look
from judge.devices.keys import DeviceKey, read_key
from judge.devices.models import Device
from judge.devices.services import device_enroll, key_path
from judge.evaluations.models import Evaluation
from judge.problems.admission import admission_queue
from judge.problems.models import Problem
from search.ledger.books import ledger_of
from search.ledger.models import Spending
from search.records.models import Node, Run
from search.records.queue import FollowUp
from tests.judge.batch_makers import MARK
from tests.pages import client_of
from tests.search.fleet.test_searches_elsewhere import LOST, There, admitted
from tests.search.makers import Worker, make_problem, make_run

pytestmark = pytest.mark.django_db
HERE = MARK | {"kind": "interpreter", "gpu": None}
SERVER = "https://dashboard.example.org"


def token_for(role: Role) -> str:
    """A token of a new member with this role that may do what the member may."""
    user = User.objects.create_user(f"gpu {User.objects.count()}")
    user.groups.add(Group.objects.get_or_create(name=role.value)[0])
    scopes = {Role.OPERATOR: ["read", "steer"], Role.ADMIN: ["admin"]}.get(role, ["read"])
    return token_issue(name="gpu", scopes=scopes, days=None, user=user, now=timezone.now())[1]


class Wire:
    """Instead of urllib's opener: the site's own test client."""

    def __init__(self) -> None:
        self.client, self.asked = Client(), []

    def open(self, request, timeout):
        self.asked.append(request)
        answer = self.client.post(
            request.full_url.removeprefix(SERVER), data=request.data, content_type="application/json",
            headers={"Authorization": request.get_header("Authorization")},
        )  # fmt: skip
        if answer.status_code != 200:
            raise urllib.error.HTTPError(
                request.full_url, answer.status_code, "no", answer.headers, io.BytesIO(answer.content)
            )
        return io.BytesIO(answer.content)


@pytest.fixture
def device(settings, tmp_path) -> Device:
    settings.DATA_DIR = tmp_path / "data"
    return device_enroll(name="far", kind=Device.Kind.INTERPRETER, arch="sm_90")[0]


def place_of(role: Role = Role.OPERATOR, key: DeviceKey | None = None) -> ServerPlace:
    place = ServerPlace(SERVER, key or read_key(key_path("far")), token_for(role))
    place._opener = Wire()  # type: ignore[assignment]
    return place


def waiting_run(device: Device, **fields) -> tuple[Run, Worker]:
    run = make_run(device=device, problem=admitted(device), **{"steps": 2, "concurrency": 1} | fields)
    worker = Worker()
    worker.work([FollowUp("advance", run.pk)])
    return run, worker


def served(place: ServerPlace, bench: There) -> int:
    key = read_key(key_path("far"))
    return serve(place, bench=bench, key=key, fingerprint=lambda: HERE, say=lambda line: None, once=True).judged


def test_a_search_runs_to_its_end_over_https(device) -> None:
    run, worker = waiting_run(device)
    place, bench = place_of(), There()
    for _ in range(2):
        assert served(place, bench) == 1
        worker.work(worker.later(0))
    run.refresh_from_db()
    device.refresh_from_db()
    assert run.state == Run.State.FINISHED and device.seen_at is not None
    assert bench.asked[1].beat == 2.0


def test_a_job_is_one_servers_until_its_lease_ends_or_it_is_given_back(device) -> None:
    waiting_run(device)
    one, two = place_of(), place_of()
    taken = one.take()
    assert taken is not None and two.take() is None
    assert one.renew(taken) and not two.renew(taken)
    two.release(taken)
    assert two.take() is None
    BatchJob.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    again = two.take()
    assert again == taken and not one.renew(taken)
    two.release(again)
    assert one.take() == taken


def test_the_first_outcome_counts_and_the_same_again_does_no_harm(device) -> None:
    run, _ = waiting_run(device)
    place = place_of()
    taken = place.take()
    lines: list[bytes] = []

    class Kept(ServerPlace):
        def put(self, taken, line):
            lines.append(line)
            return super().put(taken, line)

    place.release(taken)
    place.__class__ = Kept
    served(place, There())
    assert place.put(taken, lines[0]) and Evaluation.objects.count() == 1
    altered = json.dumps(json.loads(lines[0]) | {"judged_at": "x"}).encode()
    assert not place.put(taken, altered)
    assert Node.objects.get(run=run, number=1).state == Node.State.COMPLETED


def test_a_fault_of_the_judge_is_offered_again_at_once(device) -> None:
    waiting_run(device)
    place = place_of()
    assert served(place, There(LOST)) == 2  # lost, then judged
    assert Evaluation.objects.count() == 1 and len(BatchJob.objects.get().lost) == 1


def test_a_job_that_cannot_be_judged_there_comes_back_with_the_reason(device) -> None:
    run, _ = waiting_run(device)
    place = place_of()
    taken = place.take()
    place.refuse(taken, "it asks for protocol judge/9")
    assert "judge/9" in BatchJob.objects.get().refusal
    assert "judge/9" in client_of("viewer").get(f"/s/{run.pk}/").content.decode()
    again = place_of().take()  # at once, and by anybody
    assert again is not None and again.token != taken.token
    place.refuse(taken, "of the first export")
    assert "judge/9" in BatchJob.objects.get().refusal and len(BatchJob.objects.get().lost) == 1


@pytest.mark.parametrize("by", ["refuse", "answer"])
def test_a_machine_that_refuses_three_in_a_row_is_quarantined_for_that_reason(device, by) -> None:
    run, _ = waiting_run(device)
    place = place_of()
    for _ in range(3):
        taken = place.take()
        assert taken is not None
        if by == "refuse":
            place.refuse(taken, "it asks for protocol judge/9")
        else:
            assert not place.put(taken, b'{"kind": "nothing"}')
    assert place.take() is None
    device.refresh_from_db()
    assert device.state == Device.State.QUARANTINED
    assert ("protocol judge/9" if by == "refuse" else "outcome") in device.state_reason
    assert Node.objects.get(run=run, number=1).state == Node.State.JUDGING and not Evaluation.objects.exists()


@pytest.mark.parametrize("how", ["stopped", "quarantined", "known"])
def test_a_job_that_nobody_waits_for_is_not_kept(device, how) -> None:
    run, _ = waiting_run(device)
    place = place_of()
    taken = place.take()
    assert place.renew(taken)
    if how == "stopped":
        assert client_of("operator").post(f"/s/{run.pk}/n/1/stop", {"sure": "1"}).status_code == 302
    elif how == "quarantined":
        Problem.objects.update(quarantined_at=timezone.now())
    else:
        Node.objects.filter(run=run, number=1).update(state=Node.State.COMPLETED, told_order=1)
    assert not place.renew(taken)
    BatchJob.objects.update(lease_since=timezone.now() - timedelta(seconds=9))
    for _ in range(2):
        place.release(taken)
        (booked,) = Spending.objects.filter(run=run, kind="stopped").values_list("device_ms", flat=True)
        assert 9_000 <= booked < 18_000, "once, by this machine's clock"
        assert ledger_of(run.pk).spent.device_ms == math.ceil(booked)


def test_a_job_that_is_given_back_and_still_wanted_has_cost_nothing(device) -> None:
    waiting_run(device)
    place = place_of()
    place.release(place.take())
    assert not Spending.objects.filter(kind="stopped").exists()


def test_a_preflight_that_is_stopped_is_not_kept(device) -> None:
    problem = make_problem()
    admission_queue(problem=problem, device=device)
    place = place_of()
    taken = place.take()
    assert place.renew(taken) and BatchJob.objects.get().about == f"{problem.slug}, preflight"
    Problem.objects.update(admission={})
    assert not place.renew(taken)


def test_an_evaluation_that_a_person_stops_ends_on_the_other_machine(device, monkeypatch) -> None:
    monkeypatch.setattr("judge.batch.serving.WANTED_S", 0.01)
    run, _ = waiting_run(device)
    place, said = place_of(), []

    class Endless(There):
        def evaluate(self, job):
            client_of("operator").post(f"/s/{run.pk}/n/1/stop", {"sure": "1"})
            while True:
                look()

    place.renew = lambda taken: False  # type: ignore[method-assign]  # what the server says by now
    done = serve(
        place, bench=Endless(), key=read_key(key_path("far")), fingerprint=lambda: HERE, say=said.append, once=True
    )
    assert (done.judged, done.stopped) == (0, 1)
    assert said == [f"relu, search {run.pk}, node 1 is not wanted any more: it was stopped"]
    assert not Evaluation.objects.exists()
    assert Node.objects.get(run=run, number=1).state == Node.State.CANCELLED


@pytest.mark.parametrize(
    ("role", "key", "said"),
    [
        (Role.VIEWER, None, "operator"),
        (Role.OPERATOR, DeviceKey("far", "ab" * 32), "not sealed with the key of far"),
        (Role.OPERATOR, DeviceKey("near", "ab" * 32), "answers 404"),
    ],
)
def test_it_needs_the_role_and_the_key_of_the_device(device, role, key, said) -> None:
    waiting_run(device)
    with pytest.raises(ServerRefused, match=said):
        place_of(role, key).take()
    assert not BatchJob.objects.exists()


def test_a_wrong_token_is_refused(device) -> None:
    place = place_of()
    place._token = "ada_wrong"
    with pytest.raises(ServerRefused, match="401"):
        place.take()


def test_a_request_that_is_old_or_for_another_verb_is_refused(device) -> None:
    waiting_run(device)
    key, client = read_key(key_path("far")), Client(headers={"Authorization": f"Bearer {token_for(Role.OPERATOR)}"})

    def ask(verb: str, body: dict) -> int:
        return client.post(f"/api/v1/jobs/far/{verb}", data=body, content_type="application/json").status_code

    body = ask_body(key, "take", owner="me", token="", line="")
    assert ask("release", body) == 403 and ask("take", body | {"owner": "you"}) == 403
    assert ask("take", body) == 200
    assert ask("steal", body) == 422 and ask("take", {"owner": "me"}) == 422
    old = {name: value for name, value in body.items() if name != "mac"}
    old["at"] = (timezone.now() - timedelta(hours=1)).isoformat()
    from judge.bench.exchange import seal

    assert ask("take", old | {"mac": seal.sign(old, key=key.secret, nonce=old["nonce"])}) == 403


def test_a_quarantined_device_gets_no_jobs(device) -> None:
    waiting_run(device)
    Device.objects.update(state="quarantined")
    assert place_of().take() is None


def test_faults_that_may_pass_are_tried_again_and_a_redirect_is_not_followed(tmp_path) -> None:
    class Answers(BaseHTTPRequestHandler):
        todo = [503, 302, 200, "cut"]

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            code = self.todo.pop(0)
            body = b'{"done": true}' if code == 200 else b"{"
            self.send_response(200 if code == "cut" else code)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = ServerPlace(f"http://127.0.0.1:{server.server_port}", DeviceKey("far", "ab" * 32), "ada_x")
    try:
        with pytest.raises(OSError, match="503"):
            place.take()
        with pytest.raises(ServerRefused, match="302"):
            place.take()
        assert place.take() is None
        with pytest.raises(OSError, match="cannot be read"):
            place.take()
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(OSError):
        place.take()


def test_a_token_goes_only_over_an_encrypted_line_and_from_a_private_file(tmp_path) -> None:
    key = DeviceKey("far", "ab" * 32)
    for url, said in (("http://example.org", "not encrypted"), ("ftp://x", "no address"), ("https://", "no address")):
        with pytest.raises(ServerRefused, match=said):
            ServerPlace(url, key, "t")
    ServerPlace("http://localhost:8000", key, "t")
    path = tmp_path / "token"
    path.write_text("ada_x\n")
    path.chmod(0o644)
    with pytest.raises(ServerRefused, match="chmod 600"):
        read_token(path)
    path.chmod(0o600)
    assert read_token(path) == "ada_x"
    path.write_text("two words")
    with pytest.raises(ServerRefused, match="no token"):
        read_token(path)


def test_no_user_sees_the_line_of_a_job_without_the_key(device) -> None:
    assert User.objects.count() == 0
    waiting_run(device)
    body = {"device": "far", "verb": "take", "owner": "me", "at": "x", "nonce": "n", "mac": "m"}
    headers = {"Authorization": f"Bearer {token_for(Role.ADMIN)}"}
    answer = Client(headers=headers).post("/api/v1/jobs/far/take", data=body, content_type="application/json")
    assert answer.status_code == 403


def test_a_late_answer_to_an_earlier_export_does_not_keep_the_job_back(device) -> None:
    waiting_run(device)
    place, lines = place_of(), []
    taken = place.take()
    place.release(taken)

    class Kept(ServerPlace):
        def put(self, taken, line):
            lines.append(line)
            return super().put(taken, line)

    other = place_of()
    other.__class__ = Kept
    assert served(other, There(LOST)) == 2
    BatchJob.objects.update(imported_at=None, evaluation=None, lease_until=None)  # as before the second outcome
    assert not place.put(taken, json.dumps(json.loads(lines[0]) | {"judged_at": "late"}).encode())
    assert BatchJob.objects.get().refusal == ""


def test_a_machine_with_another_key_keeps_no_job_of_this_device_back(device) -> None:
    waiting_run(device)
    taken = place_of().take()
    device_enroll(name="near", kind=Device.Kind.INTERPRETER, arch="sm_90")
    place = place_of(key=read_key(key_path("near")))
    assert not place.put(taken, b"{}")
    assert BatchJob.objects.get().refusal == ""
