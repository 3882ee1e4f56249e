"""A chat endpoint for tests that speaks the real protocol on 127.0.0.1, errors included.

In tests: `with StubLLM([Step("429", retry_after="1"), Step("ok", text="...")]) as stub: ... stub.url`.
By hand: `python -m tests.llm_stub --port 8399`, then LLM_BASE_URL=http://127.0.0.1:8399/v1 LLM_API_KEY=anything
LLM_MODEL=stub. It answers every prompt of this product with a kernel that is right and not fast.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.llm_stub_kernels import answer_prompt


@dataclass(frozen=True)
class Step:
    """What the server does with one request.

    `kind`: "ok", an HTTP status ("401", "429", "500", ...), "hang", "drop" (closes without a byte), "cut" (ends inside
    the text), "garbage" (200 with broken JSON), "nested" (JSON nested too deeply), "html", "huge", "drip" (keep-alives
    without end), "gzip", "redirect".
    """

    kind: str = "ok"
    text: str = "hello"
    finish: str | None = "stop"
    usage: dict[str, Any] | None = field(default_factory=lambda: {"prompt_tokens": 11, "completion_tokens": 7})
    message: str = "scripted error"
    code: str | None = None
    retry_after: str = ""
    echo: bool = False  # repeat the caller's Authorization header in what is sent back


class StubLLM:
    """The server. Each request takes the next step; the last one repeats. `requests` holds what was asked."""

    def __init__(
        self, steps: Sequence[Step] = (), *, port: int = 0, answer: Callable[[dict[str, Any]], str] | None = None
    ) -> None:
        self.steps = list(steps) or [Step()]
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
        self._server.daemon_threads = True
        self._server.stub = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(poll_interval=0.02), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def take(self, request: dict[str, Any]) -> Step:
        self.requests.append(request)
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_POST(self) -> None:
        stub: StubLLM = self.server.stub  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        step = stub.take(
            {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}, "body": body}
        )
        self.close_connection = True
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._play(stub, step, body)

    def _play(self, stub: StubLLM, step: Step, body: dict[str, Any]) -> None:
        if step.kind == "hang":
            stub.closing.wait(30)
        elif step.kind == "drop":
            pass
        elif step.kind == "redirect":
            self._send(302, b"", location="http://127.0.0.1:1/elsewhere")
        elif step.kind.isdigit():
            self._send_error(step)
        elif step.kind == "garbage":
            self._send(200, b'{"choices": [{"message": {"content": "hal', kind="application/json")
        elif step.kind == "nested":
            deep = b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
            if body.get("stream"):
                self._send(200, b"data: " + deep + b"\n\n", kind="text/event-stream")
            else:
                self._send(200, deep)
        elif step.kind == "html":
            self._send(200, b"<html><body>Welcome</body></html>", kind="text/html")
        elif step.kind == "gzip":
            self._send(200, b"\x1f\x8b", **{"Content-Encoding": "gzip"})
        elif step.kind == "drip":
            self._drip(stub)
        else:
            self._send_answer(stub, step, body)

    def _send_error(self, step: Step) -> None:
        message = step.message + (f" {self.headers['Authorization']}" if step.echo else "")
        headers = {"Retry-After": step.retry_after} if step.retry_after else {}
        error = {"error": {"message": message, "type": "scripted", "param": None, "code": step.code}}
        self._send(int(step.kind), json.dumps(error).encode(), **headers)

    def _send_answer(self, stub: StubLLM, step: Step, body: dict[str, Any]) -> None:
        text = stub.answer(body) if stub.answer else step.text
        if step.echo:
            text += f" {self.headers['Authorization']}"
        if step.kind == "huge":
            text = "x" * (9 << 20)
        if body.get("stream"):
            self._stream(step, text, body)
        elif step.kind == "cut":
            payload = self._plain(step, text, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload[: len(payload) // 2])
        else:
            self._send(200, self._plain(step, text, body))

    @staticmethod
    def _plain(step: Step, text: str, body: dict[str, Any]) -> bytes:
        choice = {"index": 0, "finish_reason": step.finish, "message": {"role": "assistant", "content": text}}
        answer = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        return json.dumps(answer | ({"usage": step.usage} if step.usage else {})).encode()

    def _stream(self, step: Step, text: str, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        size = max(1, len(text) // 4) if len(text) < 100_000 else 60_000
        pieces = [text[i : i + size] for i in range(0, len(text), size)]
        for piece in pieces[: len(pieces) // 2] if step.kind == "cut" else pieces:
            self._event(body, {"index": 0, "delta": {"content": piece}, "finish_reason": None})
        if step.kind == "cut":
            return  # without the last chunk: the client sees the connection break
        if step.finish:
            self._event(body, {"index": 0, "delta": {}, "finish_reason": step.finish})
        if step.usage and body.get("stream_options", {}).get("include_usage"):
            self._event(body, None, usage=step.usage)
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, body: dict[str, Any], choice: dict[str, Any] | None, **extra: Any) -> None:
        event = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        data = event | {"choices": [choice] if choice else []} | extra
        self._chunk(b"data: " + json.dumps(data).encode() + b"\n\n")

    def _drip(self, stub: StubLLM) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while not stub.closing.wait(0.02):
            self._chunk(b": keep-alive\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, status: int, payload: bytes, *, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload)


def main() -> None:
    """Serve until Ctrl-C, answering every prompt of this product with a right kernel."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=8399)
    port = parser.parse_args().port
    with StubLLM(port=port, answer=answer_prompt) as stub:
        sys.stdout.write(f"LLM_BASE_URL={stub.url} LLM_API_KEY=stub-key LLM_MODEL=stub\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            stub.closing.wait()


if __name__ == "__main__":
    main()
