"""Headroom, and what it is measured against: how each is started, and how it is asked. All count under a limit of 1,000
a day for each key."""
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

from lab import Server, free_port, note

BENCH = pathlib.Path(__file__).resolve().parent
TOOLS = pathlib.Path(tempfile.gettempdir()) / "headroom-peers"  # built once; never in the tree
BATCH = 1000
KEY = b"k0000000000"  # a key of its own in each request that bench/load.c sends
DURABILITIES = ("memory", "periodic", "reserved")

NODE = """node: {{name: bench, region: here, data: {data}, workers: 1}}
listen: {{rpc: "127.0.0.1:{port}"}}
limits: {limits}
memory: {{counters: {counters}, reserved: {reserved}}}
"""
# So slow that a counter once spent from stays alive: a full one is forgotten, and its next request is its first again.
LIMIT = "  - {{name: key-day, key: [api_key], algorithm: token_bucket, rate: 1000/d, burst: 1000, durability: {}}}\n"


def limits_text(durability, more=""):
    return "limits:\n" + LIMIT.format(durability) + more


# --- Headroom ---

def packed(text):
    return bytes([0xa0 | len(text)]) + text


def attributes(pairs):
    texts = [packed(text) for pair in pairs for text in pair]
    return packed(b"attributes") + bytes([0x80 | len(pairs)]) + b"".join(texts)


def check(*pairs):
    """As `headroom bench` sends it."""
    return (b"\x94\x00\xce\0\0\0\0" + packed(b"check") + b"\x91\x82" +
            attributes([(b"api_key", KEY), *pairs]) + packed(b"detail") + b"\xc2")


def check_many(count=BATCH):
    one = b"\x82" + attributes([(b"api_key", KEY)]) + packed(b"detail") + b"\xc2"
    return (b"\x94\x00\xce\0\0\0\0" + packed(b"check_many") + b"\x91\x81" + packed(b"requests") +
            b"\xdc" + struct.pack(">H", count) + one * count)


def is_decision(ask):
    return ask(check()).startswith(b"\x94\x01\x00\xc0")


def start_node(build, folder, name, limits, counters):
    """In a folder of its own; where it was started before, it goes on with its store."""
    data = folder / name.replace(" ", "-").replace(",", "")
    data.mkdir(exist_ok=True)
    port = free_port()
    (data / "limits.yaml").write_text(limits)
    (data / "node.yaml").write_text(NODE.format(data=data, port=port, limits=data / "limits.yaml", counters=counters,
                                                reserved=min(counters, 2_000_000)))
    return Server(name, port, [build / "headroomd", "--config", data / "node.yaml"], is_decision)


def start_headroom(build, folder, durability, counters):
    return start_node(build, folder, f"headroomd, {durability}", limits_text(durability), counters)


# --- a bare server ---

def start_echo(build, folder, node):
    """Answers as the node does, byte for byte, without knowing what it says. Returns it, and its tongue."""
    answer = node.ask(check())
    (folder / "answer").write_bytes(answer)
    port = free_port()
    server = Server("libuv echo", port, [build / "bench" / "echo_uv", port, len(check()), folder / "answer"],
                    lambda ask: ask(check()) == answer)
    return server, f"fixed:{len(answer)}"


# --- Redis ---

def command(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


INCR = command(b"INCR", KEY)


def start_redis(folder, *options):
    port = free_port()
    argv = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
    return Server("redis", port, [*argv, *options], lambda ask: ask(b"PING\r\n") == b"+PONG\r\n")


def gcra(redis):
    """The request that runs gcra.lua."""
    loaded = redis.ask(command(b"SCRIPT", b"LOAD", (BENCH / "gcra.lua").read_bytes()))
    request = command(b"EVALSHA", loaded.split(b"\r\n")[1], b"1", b"gcra:" + KEY, b"1000", b"86400", b"1000", b"1")
    tried = redis.ask(request)
    if not tried.startswith(b"*4\r\n:1\r\n"):
        raise RuntimeError(f"the GCRA script fails: {tried!r}")
    return request


# --- throttlecrab ---

THROTTLE = command(b"THROTTLE", KEY, b"1000", b"1000", b"86400")


def start_throttlecrab(keys):
    port = free_port()
    argv = [tool("throttlecrab-server"), "--redis", "--redis-host", "127.0.0.1", "--redis-port", port,
            "--store-capacity", 2 * keys, "--log-level", "error"]
    return Server("throttlecrab", port, argv, lambda ask: ask(THROTTLE).startswith(b"*5\r\n:1\r\n"))


# --- Gubernator: protocol buffers in gRPC in HTTP/2 ---

def varint(number):
    more = number >> 7
    return bytes([number & 127 | 128]) + varint(more) if more else bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def frame(kind, flags, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags, 0, 0, 0, 1]) + payload


def rpc(path, message):
    """One request as its frames: headers, none of them by a table that grows, and data in pieces of 16 KiB."""
    def text(value):
        return bytes([len(value)]) + value  # shorter than 127, and plain
    headers = (b"\x83\x86\x04" + text(path) + b"\x01" + text(b"localhost") + b"\x0f\x10" + text(b"application/grpc") +
               b"\x00" + text(b"te") + text(b"trailers"))
    body = struct.pack(">BI", 0, len(message)) + message
    pieces = [body[at:at + 16384] for at in range(0, len(body), 16384)]
    return frame(1, 4, headers) + b"".join(frame(0, int(piece is pieces[-1]), piece) for piece in pieces)


def get_rate_limits(count):
    limit = (field(1, b"day") + field(2, KEY) + field(3, 1) + field(4, 1000) + field(5, 86_400_000))
    return rpc(b"/pb.gubernator.V1/GetRateLimits", field(1, limit) * count)


HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"  # and settings, none of them


def is_rate_limit(ask):
    """An answer says that 1,000 are the limit."""
    return field(2, 1000) in ask(HELLO + get_rate_limits(1), 0.5)


def start_gubernator(keys):
    port, http, gossip = free_port(), free_port(), f"127.0.0.1:{free_port()}"
    environment = {"GUBER_GRPC_ADDRESS": f"127.0.0.1:{port}", "GUBER_HTTP_ADDRESS": f"127.0.0.1:{http}",
                   "GUBER_ADVERTISE_ADDRESS": f"127.0.0.1:{port}", "GUBER_CACHE_SIZE": str(2 * keys),
                   "GUBER_MEMBERLIST_ADDRESS": gossip, "GUBER_MEMBERLIST_BIND_ADDRESS": gossip,
                   "GUBER_MEMBERLIST_KNOWN_NODES": gossip, "GUBER_LOG_LEVEL": "error"}
    return Server("gubernator", port, [tool("gubernator")], is_rate_limit, environment)


# --- tools ---

HOW = {
    "throttlecrab-server": (("cargo", "protoc"), ["cargo", "install", "--locked", "--root", TOOLS,
                                                  "throttlecrab-server"]),
    "gubernator": (("go",), ["go", "install", "github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0"]),
}


def tool(name):
    return TOOLS / "bin" / name


def is_there(name):
    """Builds it, where it can be built and was not yet. Says so where it cannot."""
    needs, argv = HOW.get(name, ((name,), None))
    missing = [need for need in needs if shutil.which(need) is None]
    if argv is None:
        if missing:
            note(f"{name} is not installed: nothing is compared with it")
        return not missing
    if tool(name).exists():
        return True
    if missing:
        note(f"{', '.join(missing)} is not installed: nothing is compared with {name}")
        return False
    note(f"building {name} in {TOOLS}, once")
    built = subprocess.run([*map(str, argv)], env={**os.environ, "GOBIN": str(TOOLS / "bin")}, capture_output=True,
                           text=True, check=False)
    if built.returncode != 0:
        note(f"{name} cannot be built: {(built.stderr.strip() or '?').splitlines()[-1]}; nothing is compared with it")
    return built.returncode == 0
