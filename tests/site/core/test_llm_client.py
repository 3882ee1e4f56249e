"""The chat client against a server that speaks the real protocol: answers, faults, retries, a key that never shows."""

from __future__ import annotations

import random
import traceback

import pytest

from adaexplore_site.core.llm import ChatClient, Endpoint, LLMError, Retry, scrub
from tests.llm_stub import Step, StubLLM

KEY = "sk-secret-0123456789"
ASK = [{"role": "user", "content": "hi"}]
BOTH = pytest.mark.parametrize("stream", [True, False], ids=["stream", "plain"])


class Sleeps(list):
    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(stub: StubLLM, *, stream: bool = True, sleeps: Sleeps | None = None, timeout_s: float = 10.0, **retry):
    endpoint = Endpoint("tiny", stub.url, KEY, timeout_s, stream)
    sleep = Sleeps() if sleeps is None else sleeps
    return ChatClient(endpoint, rng=random.Random(1), retry=Retry(**retry), sleep=sleep)


def fault(stub: StubLLM, **options) -> LLMError:
    with pytest.raises(LLMError) as caught:
        client(stub, **options).complete(ASK)
    return caught.value


@BOTH
def test_an_answer_comes_back_with_text_tokens_and_model(stream):
    with StubLLM([Step(text="some longer text")]) as stub:
        answer = client(stub, stream=stream).complete(ASK, temperature=0.5)
    assert (answer.text, answer.model, answer.finish_reason) == ("some longer text", "tiny", "stop")
    assert (answer.tokens_in, answer.tokens_out, answer.price_usd) == (11, 7, None)
    asked = stub.requests[0]
    assert asked["headers"]["authorization"] == f"Bearer {KEY}"
    assert asked["body"]["temperature"] == 0.5
    assert asked["body"]["messages"] == ASK


@BOTH
@pytest.mark.parametrize("usage", [None, {"prompt_tokens": "many", "completion_tokens": -3}])
def test_missing_or_senseless_token_counts_are_unknown(stream, usage):
    with StubLLM([Step(usage=usage)]) as stub:
        answer = client(stub, stream=stream).complete(ASK)
    assert (answer.tokens_in, answer.tokens_out) == (None, None)


@BOTH
def test_a_reply_at_the_length_limit_says_it_was_cut_off(stream):
    with StubLLM([Step(finish="length")]) as stub:
        assert client(stub, stream=stream).complete(ASK).cut_off


@BOTH
@pytest.mark.parametrize(
    ("status", "word"), [("401", "LLM_API_KEY"), ("403", "LLM_API_KEY"), ("404", "LLM_MODEL"), ("400", "refused")]
)
def test_what_only_a_person_can_mend_is_permanent_and_asked_once(stream, status, word):
    with StubLLM([Step(status)]) as stub:
        error = fault(stub, stream=stream)
    assert error.permanent
    assert word in str(error)
    assert len(stub.requests) == 1


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "422", "429", "500"])
def test_a_key_echoed_by_the_server_shows_nowhere(status, caplog):
    with StubLLM([Step(status, echo=True)]) as stub:
        error = fault(stub, attempts=1)
    trail = "".join(traceback.format_exception(error)) + repr(vars(error)) + caplog.text
    assert KEY not in trail
    assert error.__context__ is None  # the library's exception would carry the request's headers


@BOTH
def test_a_key_echoed_in_a_reply_is_replaced(stream):
    with StubLLM([Step(echo=True)]) as stub:
        answer = client(stub, stream=stream).complete(ASK)
    assert answer.text == "hello Bearer [key]"


def test_the_key_shows_in_no_repr():
    assert KEY not in repr(Endpoint("tiny", "http://x/v1", KEY))


@pytest.mark.parametrize("form", ["a/b+c-long", "a%2Fb%2Bc-long", "YS9iK2MtbG9uZw"])
def test_a_key_is_scrubbed_in_every_encoding(form):
    assert scrub(f"<{form}>", "a/b+c-long") == "<[key]>"


@BOTH
@pytest.mark.parametrize("kind", ["429", "500", "503", "drop", "garbage", "html"])
def test_passing_faults_are_tried_again_with_growing_jitter(stream, kind):
    sleeps = Sleeps()
    with StubLLM([Step(kind), Step(kind), Step(text="at last")]) as stub:
        answer = client(stub, stream=stream, sleeps=sleeps).complete(ASK)
    assert (answer.text, answer.attempts) == ("at last", 3)
    assert 0 <= sleeps[0] <= 1
    assert 0 <= sleeps[1] <= 2


def test_retries_end_and_say_how_often_it_was_tried():
    sleeps = Sleeps()
    with StubLLM([Step("500", message="boiler broke")]) as stub:
        error = fault(stub, sleeps=sleeps)
    assert (error.permanent, error.attempts, len(stub.requests), len(sleeps)) == (False, 4, 4, 3)
    assert "boiler broke" in str(error)


def test_retry_after_is_honoured():
    sleeps = Sleeps()
    with StubLLM([Step("429", retry_after="7"), Step()]) as stub:
        client(stub, sleeps=sleeps).complete(ASK)
    assert 7 <= sleeps[0] <= 7.25


def test_a_long_retry_after_is_handed_back_instead_of_slept():
    sleeps = Sleeps()
    with StubLLM([Step("429", retry_after="3600")]) as stub:
        error = fault(stub, sleeps=sleeps)
    assert (error.retry_after_s, error.permanent, sleeps) == (3600.0, False, [])


def test_an_empty_account_is_permanent():
    with StubLLM([Step("429", code="insufficient_quota")]) as stub:
        assert fault(stub).permanent


@BOTH
def test_a_server_that_hangs_is_a_passing_fault_and_not_waited_for_twice(stream):
    with StubLLM([Step("hang")]) as stub:
        error = fault(stub, stream=stream, timeout_s=0.3)
    assert (error.permanent, len(stub.requests)) == (False, 1)
    assert "LLM_TIMEOUT_S" in str(error)


def test_keep_alives_do_not_stretch_the_time_limit():
    with StubLLM([Step("drip")]) as stub:
        error = fault(stub, timeout_s=0.3)
    assert "0.3 s" in str(error)


@BOTH
def test_a_connection_lost_inside_the_text_is_a_cut_off(stream):
    with StubLLM([Step("cut", text="abcdefgh")]) as stub:
        error = fault(stub, stream=stream, attempts=2)
    assert (error.permanent, len(stub.requests)) == (False, 2)
    assert "cut off" in str(error)
    assert error.partial == ("abcd" if stream else "")


@BOTH
def test_json_that_is_nested_too_deeply_is_no_answer(stream):
    with StubLLM([Step("nested")]) as stub:
        error = fault(stub, stream=stream, attempts=1)
    assert "did not answer with a chat completion" in str(error) and not error.permanent


def test_a_stream_without_a_finish_reason_was_cut_off():
    with StubLLM([Step(finish=None)]) as stub:
        error = fault(stub, attempts=1)
    assert "cut off" in str(error)


@BOTH
def test_a_huge_body_is_dropped_and_not_asked_for_again(stream):
    with StubLLM([Step("huge")]) as stub:
        error = fault(stub, stream=stream)
    assert "8 MiB" in str(error)
    assert len(stub.requests) == 1


def test_a_compressed_body_is_refused():
    with StubLLM([Step("gzip")]) as stub:
        assert "compresses" in str(fault(stub))


def test_a_redirect_is_not_followed():
    with StubLLM([Step("redirect")]) as stub:
        error = fault(stub)
    assert error.permanent
    assert "redirects" in str(error)


def test_a_server_that_refuses_stream_options_is_asked_without_them():
    refusal = Step("400", message="unknown field stream_options")
    with StubLLM([refusal, Step(text="fine")]) as stub:
        answer = client(stub).complete(ASK)
    assert (answer.text, answer.tokens_out) == ("fine", None)


def test_an_unreachable_server_is_a_passing_fault_that_names_the_address():
    with StubLLM() as stub:
        url = stub.url
    endpoint = Endpoint("tiny", url, KEY)
    with pytest.raises(LLMError, match="cannot be reached") as caught:
        ChatClient(endpoint, rng=random.Random(1), retry=Retry(attempts=1)).complete(ASK)
    assert not caught.value.permanent
    assert url in str(caught.value)


@pytest.mark.parametrize(
    ("endpoint", "word"),
    [
        (Endpoint("m"), "LLM_API_KEY"),
        (Endpoint("", "http://x/v1"), "LLM_MODEL"),
        (Endpoint("m", "x.example/v1"), "http://"),
        (Endpoint("m", "http://[bad/v1"), "http://"),
        (Endpoint("m", "http://x/v1", "sk-with\nbreak"), "copy the key again"),
    ],
)
def test_settings_that_cannot_work_say_what_to_set_and_send_nothing(endpoint, word):
    with pytest.raises(LLMError, match=word) as caught:
        ChatClient(endpoint, rng=random.Random(1)).complete(ASK)
    assert caught.value.permanent
    assert "sk-with" not in str(caught.value)


def test_passwords_in_the_address_are_not_shown():
    assert Endpoint("m", "http://user:pass@host:8/v1?token=t").shown == "http://host:8/v1"
