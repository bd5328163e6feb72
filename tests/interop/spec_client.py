#!/usr/bin/env python3
"""spec_client.py HOST PORT: a client written from the specifications of MessagePack and MessagePack-RPC alone."""
import socket
import struct
import sys

import scenario


def pack_head(count, short, short_max, codes):
    if count <= short_max:
        return bytes([short | count])
    for code, form, end in codes:
        if code and count < end:
            return bytes([code]) + struct.pack(form, count)
    raise ValueError(count)


def heads(code8, code16, code32):
    return (code8, ">B", 1 << 8), (code16, ">H", 1 << 16), (code32, ">I", 1 << 32)


def pack(value):
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return pack_head(value, 0, 0x7F, heads(0xCC, 0xCD, 0xCE))
    if isinstance(value, str):
        text = value.encode()
        return pack_head(len(text), 0xA0, 31, heads(0xD9, 0xDA, 0xDB)) + text
    if isinstance(value, list):
        return pack_head(len(value), 0x90, 15, heads(None, 0xDC, 0xDD)) + b"".join(map(pack, value))
    pairs = b"".join(pack(key) + pack(item) for key, item in value.items())
    return pack_head(len(value), 0x80, 15, heads(None, 0xDE, 0xDF)) + pairs


NUMBERS = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
LENGTHS = {0xD9: (">B", "str"), 0xDA: (">H", "str"), 0xDB: (">I", "str"), 0xDC: (">H", "array"),
           0xDD: (">I", "array"), 0xDE: (">H", "map"), 0xDF: (">I", "map")}


class Client:
    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.stream = self.socket.makefile("rb")
        self.msgid = 0

    def number(self, form):
        return struct.unpack(form, self.stream.read(struct.calcsize(form)))[0]

    def unpack(self):
        """The next value. What no answer may hold (bin, ext, floating point) is an error here."""
        head = self.number(">B")
        if head < 0x80:
            return head
        if head >= 0xE0:
            return head - 0x100
        if head in NUMBERS:
            return self.number(NUMBERS[head])
        if head in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[head]
        if head < 0xC0:
            kind, count = ("map", head & 15) if head < 0x90 else ("array", head & 15) if head < 0xA0 else \
                ("str", head & 31)
            return self.unpack_many(kind, count)
        form, kind = LENGTHS[head]
        return self.unpack_many(kind, self.number(form))

    def unpack_many(self, kind, count):
        if kind == "str":
            return self.stream.read(count).decode()
        if kind == "array":
            return [self.unpack() for _ in range(count)]
        return {self.unpack(): self.unpack() for _ in range(count)}

    def send(self, method, params):
        self.msgid += 1
        self.socket.sendall(pack([0, self.msgid, method, [params]]))
        return self.msgid

    def receive(self):
        kind, msgid, error, result = self.unpack()
        assert kind == 1 and (error is None or result is None), (kind, error, result)
        return msgid, error, result

    def call(self, method, params):
        msgid = self.send(method, params)
        answered, error, result = self.receive()
        assert answered == msgid, (answered, msgid)
        return error, result

    def call_at_once(self, method, all_params):
        sent = [self.send(method, params) for params in all_params]
        answers = {msgid: (error, result) for msgid, error, result in (self.receive() for _ in sent)}
        return [answers[msgid] for msgid in sent]


if __name__ == "__main__":
    scenario.run(Client(sys.argv[1], int(sys.argv[2])), "spec")
