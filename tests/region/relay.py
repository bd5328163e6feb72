"""Somebody in the middle: passes on what goes to a node, and keeps a copy of it."""
import contextlib
import socket
import threading


class Relay:
    def __init__(self, host, target):
        """target: (host, port). Connections to self.port are led there."""
        self.target = target
        self.server = socket.create_server((host, 0))
        self.port = self.server.getsockname()[1]
        self.heard = []  # of each connection: what was sent to the target, a bytearray
        self.sockets = [self.server]
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.server.accept()
                self.sockets.append(near)
                self.lead(near)

    def lead(self, near):
        try:
            far = socket.create_connection(self.target)
        except OSError:
            near.close()
            return
        self.sockets.append(far)
        copy = bytearray()
        self.heard.append(copy)
        threading.Thread(target=self.pass_on, args=(near, far, copy), daemon=True).start()
        threading.Thread(target=self.pass_on, args=(far, near, None), daemon=True).start()

    @staticmethod
    def pass_on(source, sink, copy):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if copy is not None:
                    copy += data
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
