#!/usr/bin/env python3
"""Writes the golden messages beside it, each as NAME.hex: the bytes of one MessagePack-RPC message, in hexadecimal,
below a comment that says it in words.

    write.py            writes them all
    write.py --check    exits 1 if a file, or an example in docs/PROTOCOL.md, differs from what would be written

It knows nothing of Headroom's own encoder: the bytes are put together here from the tables of the MessagePack
specification. A message's bytes never change once a release has spoken them; a new form is a new file.
"""

import pathlib
import re
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[2] / "docs" / "PROTOCOL.md"


class Raw(bytes):
    """Bytes that are MessagePack already."""


def first_that_holds(number, forms):
    for mark, code, end in forms:
        if number < end:
            return bytes([mark]) + struct.pack(code, number)
    raise ValueError(number)


def pack_int(value):
    if value < 0:
        if value >= -32:
            return struct.pack(">b", value)
        for mark, code, bits in ((0xD0, ">b", 7), (0xD1, ">h", 15), (0xD2, ">i", 31), (0xD3, ">q", 63)):
            if value >= -(1 << bits):
                return bytes([mark]) + struct.pack(code, value)
    if value < 0x80:
        return bytes([value])
    return first_that_holds(value, ((0xCC, ">B", 1 << 8), (0xCD, ">H", 1 << 16), (0xCE, ">I", 1 << 32),
                                    (0xCF, ">Q", 1 << 64)))


def pack_head(count, short, short_end, forms):
    return bytes([short | count]) if count < short_end else first_that_holds(count, forms)


def pack(value):
    if isinstance(value, Raw):
        return bytes(value)
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return pack_int(value)
    if isinstance(value, str):
        text = value.encode()
        forms = ((0xD9, ">B", 1 << 8), (0xDA, ">H", 1 << 16), (0xDB, ">I", 1 << 32))
        return pack_head(len(text), 0xA0, 32, forms) + text
    if isinstance(value, bytes):
        forms = ((0xC4, ">B", 1 << 8), (0xC5, ">H", 1 << 16), (0xC6, ">I", 1 << 32))
        return first_that_holds(len(value), forms) + value
    if isinstance(value, list):
        forms = ((0xDC, ">H", 1 << 16), (0xDD, ">I", 1 << 32))
        return pack_head(len(value), 0x90, 16, forms) + b"".join(map(pack, value))
    if isinstance(value, dict):
        pairs = b"".join(pack(k) + pack(v) for k, v in value.items())
        return pack_head(len(value), 0x80, 16, ((0xDE, ">H", 1 << 16), (0xDF, ">I", 1 << 32))) + pairs
    raise TypeError(value)


def row(name, allowed, mode, numbers, **more):
    limit, remaining, retry, reset = numbers
    return {"name": name, "allowed": allowed, "mode": mode, "limit": limit, "remaining": remaining,
            "retry_after_ms": retry, "reset_after_ms": reset, **more}


def decision(action, decided_by, retry, delay, rows, **more):
    answer = {"allowed": action != "deny", "action": action, "decided_by": decided_by, "retry_after_ms": retry,
              "delay_ms": delay}
    if rows is not None:
        answer["limits"] = rows
    return {**answer, "node": "eu-1", "region": "eu", **more}


LEASE = "00112233445566778899aabbccddeeff"

ALLOW = decision("allow", None, 0, 0, [row("key-rps", True, "enforce", (100, 98, 0, 40)),
                                       row("trial", False, "shadow", (5, 0, 1500, 60000))])
DENY = decision("deny", "key-rps", 20, 0, [row("key-rps", False, "enforce", (100, 0, 20, 2000)),
                                           row("month", False, "enforce", (2**53 - 1, 7, -1, 2**31))])

# name: (what it is, the message)
MESSAGES = {
    "request_check": ("a check with every key there is", [0, 1, "check", [{
        "attributes": {"api_key": "k1", "route": "payments.write"}, "cost": 2, "id": b"order-17", "peek": False,
        "detail": True}]]),
    "request_check_least": ("a check with what it must have", [0, 2, "check", [{"attributes": {"api_key": "k1"}}]]),
    "request_check_many": ("two checks, each on its own", [0, 3, "check_many", [{"requests": [
        {"attributes": {"api_key": "k1"}}, {"attributes": {"api_key": "k2"}, "cost": 2**53 - 1}]}]]),
    "request_throttle": ("a limit given on the spot", [0, 4, "throttle", [{
        "cost": 1, "key": "user 17", "rate": "50/s", "burst": 100, "algorithm": "gcra", "scope": "global"}]]),
    "request_release": ("the end of a lease", [0, 5, "release", [{"lease": LEASE}]]),
    "request_renew": ("a lease for its whole ttl again", [0, 6, "renew", [{"lease": LEASE}]]),
    "request_refund": ("what an admitted request took", [0, 7, "refund", [{
        "attributes": {"api_key": "k1"}, "cost": 2, "id": b"order-17"}]]),
    "request_limits_list": ("all limits", [0, 8, "limits.list", [{}]]),
    "request_limits_get": ("one limit", [0, 9, "limits.get", [{"name": "key-rps"}]]),
    "request_limits_put": ("a limit as in a limits file", [0, 10, "limits.put", [{
        "name": "key-rps", "key": ["api_key"], "when": {"route": "payments.*"}, "algorithm": "token_bucket",
        "rate": "50/s", "burst": 100}]]),
    "request_limits_delete": ("a limit to go", [0, 11, "limits.delete", [{"name": "key-rps"}]]),
    "request_members": ("the cluster's members and partitions", [0, 12, "members", [{"partitions": True}]]),
    "request_status": ("how the node is", [0, 13, "status", [{}]]),
    "request_hot_keys": ("the keys asked for most", [0, 2**32 - 1, "hot_keys", [{}]]),
    "liberal_check": ("a check in the widest formats, text as bin",
                      Raw(b"\xdd\0\0\0\x04" + b"\xd3" + bytes(8) + b"\xcf\0\0\0\0\0\0\0\x07" + b"\xc6\0\0\0\x05check" +
                          b"\xdc\0\x01" + b"\xdf\0\0\0\x02" + b"\xda\0\x0aattributes" + b"\xde\0\x01" +
                          b"\xc5\0\x07api_key" + b"\xdb\0\0\0\x02k1" + b"\xc4\x04cost" + b"\xd1\0\x02")),
    "liberal_status": ("no params at all", [0, 14, "status", []]),
    "notification": ("a notification, which is not answered", [2, "status", [{}]]),
    "answer_allow": ("admitted, one limit in shadow mode", [1, 1, None, ALLOW]),
    "answer_deny": ("denied, and by one limit for ever", [1, 1, None, DENY]),
    "answer_delay": ("admitted by a leaky bucket, after a wait", [1, 1, None, decision(
        "delay", None, 0, 250, [row("smooth", True, "enforce", (10, 3, 0, 1750))])]),
    "answer_lease": ("admitted with a lease", [1, 1, None, decision(
        "allow", None, 0, 0, [row("slots", True, "enforce", (8, 7, 0, 60000), lease=LEASE)])]),
    "answer_brief": ("a decision without detail", [1, 2, None, decision("allow", None, 0, 0, None)]),
    "answer_degraded": ("a decision without the counter's owner", [1, 2, None, decision(
        "allow", None, 0, 0, [], degraded=True)]),
    "answer_check_many": ("the decisions of a check_many", [1, 3, None, [ALLOW, DENY]]),
    "answer_released": ("the lease was held", [1, 5, None, {"released": True}]),
    "answer_renewed": ("the lease is held for 60 s", [1, 6, None, {"renewed": True, "ttl_ms": 60000}]),
    "answer_refunded": ("there was nothing to give back", [1, 7, None, {"refunded": False}]),
    "answer_members": ("the members, without partitions", [1, 12, None, {"view": 3, "members": [{
        "name": "eu-1", "region": "eu", "state": "alive", "rpc": "10.0.0.1:7400", "gossip": "tcp://10.0.0.1:7401",
        "incarnation": 1}]}]),
    "answer_error": ("an error", [1, 2**32 - 1, "INVALID_ARGUMENT: unknown key \"burts\"", None]),
}


def lines_of(message):
    digits = pack(message).hex()
    return [digits[i:i + 96] for i in range(0, len(digits), 96)]


def text_of(words, message):
    said = words if isinstance(message, Raw) else f"{words}: {message}"
    return "\n".join(["# " + said, *lines_of(message)]) + "\n"


def differing_files():
    for name, (words, message) in MESSAGES.items():
        path = HERE / f"{name}.hex"
        if not path.exists() or path.read_text() != text_of(words, message):
            yield path


def differing_examples():
    """The examples of the page: hexadecimal lines, indented, below a line that ends in (`NAME`):"""
    examples = re.findall(r"\(`(\w+)`\):\n\n((?:    [0-9a-f]+\n)+)", PAGE.read_text())
    if not examples:
        yield f"{PAGE}: no examples"
    for name, text in examples:
        if name not in MESSAGES or text.split() != lines_of(MESSAGES[name][1]):
            yield f"{PAGE}: {name}"


def main():
    if "--check" in sys.argv[1:]:
        differing = [*differing_files(), *differing_examples()]
        for what in differing:
            print(f"{what} differs")
        return 1 if differing else 0
    for name, (words, message) in MESSAGES.items():
        (HERE / f"{name}.hex").write_text(text_of(words, message))
    return 0


if __name__ == "__main__":
    sys.exit(main())
