"""A client of a node, by hand: MessagePack-RPC over TCP, requests sent ahead and answers taken as they come.

It shares no code with rpc/, so that the two cannot be wrong together."""
import socket
import struct

SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
           0xD3: ">q"}
SIZES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H",
         0xDF: ">I"}


class Refused(Exception):
    """The node answered with an error, `CODE: message`."""


class Short(Exception):
    """The value goes on behind the bytes that there are."""


def pack(value):
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        if 0 <= value < 0x80:
            return bytes([value])
        return struct.pack(">Bq", 0xD3, value) if value < 0 else struct.pack(">BQ", 0xCF, value)
    if isinstance(value, str):
        return struct.pack(">BI", 0xDB, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(pack, value))
    return struct.pack(">BI", 0xDF, len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


def take(data, at, count):
    if at + count > len(data):
        raise Short
    return data[at:at + count], at + count


def number(data, at, form):
    raw, at = take(data, at, struct.calcsize(form))
    return struct.unpack(form, raw)[0], at


def values(data, at, count):
    result = []
    for _ in range(count):
        value, at = unpack(data, at)
        result.append(value)
    return result, at


def pairs(data, at, count):
    flat, at = values(data, at, 2 * count)
    return dict(zip(flat[::2], flat[1::2])), at


def unpack(data, at):
    """The value at this place, and the place behind it. Raises Short."""
    (head,), at = take(data, at, 1)
    if head < 0x80 or head >= 0xE0:
        return (head if head < 0x80 else head - 256), at
    if head in SIMPLE:
        return SIMPLE[head], at
    if head in NUMBERS:
        return number(data, at, NUMBERS[head])
    if head < 0xC0:
        kind, size = head & 0xF0, head & (0x1F if head >= 0xA0 else 0x0F)
        kind = 0xA0 if head >= 0xA0 else kind
    else:
        size, at = number(data, at, SIZES[head])
        kind = 0x90 if head in (0xDC, 0xDD) else 0x80 if head in (0xDE, 0xDF) else 0xC4 if head <= 0xC6 else 0xA0
    if kind == 0x90:
        return values(data, at, size)
    if kind == 0x80:
        return pairs(data, at, size)
    raw, at = take(data, at, size)
    return (raw if kind == 0xC4 else raw.decode()), at


class Client:
    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        self.msgid = 0

    def close(self):
        self.socket.close()

    def send(self, method, params):
        """Returns the msgid."""
        self.msgid += 1
        self.socket.sendall(pack([0, self.msgid, method, [params]]))
        return self.msgid

    def next(self):
        """The next answer: msgid, error, result. Raises OSError where the node has gone."""
        while True:
            try:
                (_, msgid, error, result), at = unpack(self.data, 0)
                self.data = self.data[at:]
                return msgid, error, result
            except Short:
                more = self.socket.recv(1 << 16)
                if not more:
                    raise ConnectionResetError("the node has closed the connection") from None
                self.data += more

    def ask(self, method, **params):
        """One request and its answer; nothing else may be under way."""
        msgid = self.send(method, params)
        answered, error, result = self.next()
        assert answered == msgid, (answered, msgid)
        if error is not None:
            raise Refused(error)
        return result
