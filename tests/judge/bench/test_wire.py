"""Messages between processes are bounded JSON, whatever the other side sends."""

from __future__ import annotations

import os
import struct

import pytest

from judge.bench.exchange import seal
from judge.bench.exchange.wire import Channel, WireClosed, WireGarbage, WireTimeout


@pytest.fixture
def ends():
    mine, theirs = Channel.pair()
    yield mine, theirs
    mine.close()
    theirs.close()


def test_a_message_and_its_descriptors_arrive_together(ends):
    mine, theirs = ends
    read, write = os.pipe()
    Channel(theirs).send({"op": "x"}, (write,))
    assert mine.receive(1) == {"op": "x"}
    (fd,) = mine.take_fds()
    os.write(fd, b"through")
    assert os.read(read, 10) == b"through"
    for each in (read, write, fd):
        os.close(each)


def test_descriptors_of_two_messages_read_at_once_stay_apart(ends):
    mine, theirs = ends
    sender, pipes = Channel(theirs), [os.pipe() for _ in range(2)]
    for _, write in pipes:
        sender.send({}, (write,))
    assert len(mine.pump()) == 2
    first, second = mine.take_fds(1), mine.take_fds(1)
    os.write(first[0], b"1")
    assert os.read(pipes[0][0], 1) == b"1"
    for fd in (*first, *second, *(fd for pair in pipes for fd in pair)):
        os.close(fd)


@pytest.mark.parametrize(
    "raw", [struct.pack("!I", 1 << 30), struct.pack("!I", 3) + b"[1]", struct.pack("!I", 2) + b"{x"]
)
def test_garbage_is_refused_and_never_believed(ends, raw):
    mine, theirs = ends
    theirs.sendall(raw)
    with pytest.raises(WireGarbage):
        mine.receive(1)


def test_half_a_message_times_out_instead_of_hanging(ends):
    mine, theirs = ends
    theirs.sendall(struct.pack("!I", 10) + b"{")
    with pytest.raises(WireTimeout):
        mine.receive(0.05)


def test_a_closed_channel_says_so(ends):
    mine, theirs = ends
    theirs.close()
    with pytest.raises(WireClosed):
        mine.receive(1)


def test_a_signature_holds_for_its_body_key_and_nonce_only():
    key, body = "ab" * 32, {"verdict": "wrong", "n": 1}
    mac = seal.sign(body, key=key, nonce="n1")
    assert seal.verified({"n": 1, "verdict": "wrong"}, mac, key=key, nonce="n1")
    assert not seal.verified({**body, "verdict": "pass"}, mac, key=key, nonce="n1")
    assert not seal.verified(body, mac, key="cd" * 32, nonce="n1")
    assert not seal.verified(body, mac, key=key, nonce="n2")
