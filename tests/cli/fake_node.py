"""A node that says what a test wants it to say: MessagePack-RPC over TCP, by hand, for one connection after another.

FakeNode(answers): a map of a method's name to what it answers: a value, an exception (an RPC error of its text), or a
function of the params that returns or raises one of these. `asked` holds each (method, params) in order."""
import socket
import struct
import threading


def pack(value):
    """The widest formats throughout, which readers must take as well as the shortest."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value) if value < 0 else struct.pack(">BQ", 0xCF, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        return struct.pack(">BI", 0xDB, len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xC6, len(value)) + value
    if isinstance(value, list):
        return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(pack, value))
    return struct.pack(">BI", 0xDF, len(value)) + b"".join(pack(k) + pack(v) for k, v in value.items())


class Unpacker:
    def __init__(self, read):
        self.read = read

    def number(self, form):
        return struct.unpack(">" + form, self.read(struct.calcsize(form)))[0]

    def array(self, count):
        return [self.value() for _ in range(count)]

    def map(self, count):
        return {self.value(): self.value() for _ in range(count)}

    def value(self):
        head = self.read(1)[0]
        if head < 0x80:
            return head
        if head < 0x90:
            return self.map(head & 0x0F)
        if head < 0xA0:
            return self.array(head & 0x0F)
        if head < 0xC0:
            return self.read(head & 0x1F).decode()
        if head >= 0xE0:
            return head - 256
        simple = {0xC0: None, 0xC2: False, 0xC3: True}
        if head in simple:
            return simple[head]
        numbers = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q"}
        if head in numbers:
            return self.number(numbers[head])
        sizes = {0xC4: "B", 0xC5: "H", 0xC6: "I", 0xD9: "B", 0xDA: "H", 0xDB: "I", 0xDC: "H", 0xDD: "I", 0xDE: "H",
                 0xDF: "I"}
        size = self.number(sizes[head])
        if head in (0xDC, 0xDD):
            return self.array(size)
        if head in (0xDE, 0xDF):
            return self.map(size)
        return self.read(size) if head <= 0xC6 else self.read(size).decode()


class FakeNode:
    def __init__(self, answers=None, raw=None, family=socket.AF_INET):
        """raw: bytes to send for the first request, and then the connection is closed; or None, and it stays open."""
        self.answers = answers or {}
        self.raw = raw
        self.asked = []
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self.listener = socket.create_server((host, 0), family=family, backlog=256)
        self.port = self.listener.getsockname()[1]
        self.address = f"[::1]:{self.port}" if family == socket.AF_INET6 else f"127.0.0.1:{self.port}"
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def close(self):
        """The thread must be out of accept() first: else it may take what comes to the next socket of this number."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.acceptor.join()
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = connection.makefile("rb")

        def read(count):
            data = stream.read(count)
            if len(data) < count:
                raise EOFError
            return data

        try:
            while True:
                _, msgid, method, params = Unpacker(read).value()
                self.asked.append((method, params[0]))
                if self.raw is not None:
                    connection.sendall(self.raw)
                    return
                connection.sendall(self.answer(msgid, method, params[0]))
        except (EOFError, OSError):
            pass
        finally:
            stream.close()
            connection.close()

    def answer(self, msgid, method, params):
        answer = self.answers.get(method, KeyError(f"UNIMPLEMENTED: there is no method {method}"))
        try:
            answer = answer(params) if callable(answer) else answer
        except Exception as error:  # what the test wants to be told
            answer = error
        if isinstance(answer, Exception):
            return pack([1, msgid, answer.args[0], None])
        return pack([1, msgid, None, answer])
