"""What does not belong to the cluster has no say in it: nodes of another secret, cluster or region, and whoever can
read and write on the way between nodes, but has not the secret."""
import contextlib
import os
import socket
import struct
import time

import case
import cluster
import relay

QUOTA = 1000
FILE = case.limits_file(f"name: spend, key: [user], algorithm: quota, quota: {QUOTA}/year")
USERS = [f"u{i}" for i in range(30)]
PATIENT = {"deadline": "5s"}
WATCHED_S = 4.0  # longer than a node looks for others before it begins alone

# The head of an envelope (gossip/envelope.h), and of a connection of nng's push sockets.
MAGIC, HEAD_BYTES, MAC_BYTES = b"HRE", 56, 16
SP_HEAD = b"\x00SP\x00\x00\x50\x00\x00"


def packets_of_peers(heard):
    """Of MessagePack-RPC: the packets in notifications [2, "peer", [{"m": packet}]]."""
    data, at, packets = bytes(heard), 0, []
    with contextlib.suppress(cluster.rpc.Short):
        while True:
            message, at = cluster.rpc.unpack(data, at)
            if message[0] == 2 and message[1] in ("peer", b"peer"):
                packets += [value for value in message[2][0].values() if isinstance(value, bytes)]
    return packets


def packets_of_gossip(heard):
    data, at, packets = bytes(heard), len(SP_HEAD), []
    while at + 8 <= len(data):
        size = struct.unpack(">Q", data[at:at + 8])[0]
        if at + 8 + size <= len(data):
            packets.append(data[at + 8:at + 8 + size])
        at += 8 + size
    return packets


def as_notification(packet):
    """rpc.pack knows no bin."""
    return (b"\x93\x02" + cluster.rpc.pack("peer") + b"\x91\x81" + cluster.rpc.pack("m") +
            struct.pack(">BI", 0xC6, len(packet)) + packet)


class Stranger(case.Case):
    def watch(self, region):
        """Two nodes, the first reached through relays. Returns those: of rpc, of gossip."""
        node = region.nodes[0]
        rpc = relay.Relay(region.host, (node.host, node.rpc_port))
        gossip = relay.Relay(region.host, (node.host, node.gossip_port))
        self.addCleanup(rpc.close)
        self.addCleanup(gossip.close)
        node.write(advertise={"rpc": f"{region.host}:{rpc.port}", "gossip": f"tcp://{region.host}:{gossip.port}"})
        region.nodes[1].write(join=[f"tcp://{region.host}:{gossip.port}"])
        region.start()
        return rpc, gossip

    @staticmethod
    def spend(region):
        for user in USERS:
            region.nodes[1].ask("check", attributes={"user": user}, cost=5)

    @staticmethod
    def picture(region):
        """All that a stranger might want to change."""
        spent = [case.remaining(region.nodes[0], {"user": user}) for user in USERS]
        status = [node.ask("status")["cluster"] for node in region.nodes]
        return (spent, region.owners(region.nodes[0]), region.states(region.nodes[0]), region.states(region.nodes[1]),
                [part["charter"] for part in status], [part["lease_lapses"] for part in status])

    @staticmethod
    def refused(node):
        return node.ask("status")["cluster"]["packets_refused"]

    def send_all(self, region, packets):
        """By both ways, and until the node has refused some of them. False packets of gossip may be lost."""
        node = region.nodes[0]
        before = self.refused(node)
        with socket.create_connection((node.host, node.rpc_port)) as rpc:
            for packet in packets:
                rpc.sendall(as_notification(packet))
            cluster.until(f"{len(packets)} packets are refused",
                          lambda: self.refused(node) >= before + len(packets), 20)
        before = self.refused(node)
        with socket.create_connection((node.host, node.gossip_port)) as gossip:
            gossip.sendall(SP_HEAD + b"".join(struct.pack(">Q", len(packet)) + packet for packet in packets[:50]))
            cluster.until("packets of gossip are refused", lambda: self.refused(node) > before, 20)

    def test_what_was_sent_once_is_not_taken_again(self):
        region = self.region(FILE, size=2, **PATIENT)
        rpc, gossip = self.watch(region)
        self.spend(region)
        time.sleep(0.5)
        peers = [packet for heard in rpc.heard for packet in packets_of_peers(heard)]
        news = [packet for heard in gossip.heard for packet in packets_of_gossip(heard)]
        self.assertGreater(len(peers), len(USERS) // 4, "calls were heard")
        self.assertGreater(len(news), 2)
        before = self.picture(region)
        self.assertEqual(before[0], [QUOTA - 5] * len(USERS))
        self.send_all(region, 2 * peers[-500:])
        with socket.create_connection((region.host, region.nodes[0].gossip_port)) as again:
            again.sendall(SP_HEAD + b"".join(struct.pack(">Q", len(packet)) + packet for packet in news))
            time.sleep(1)
        self.assertEqual(self.picture(region), before)

    def test_what_is_changed_or_made_up_is_refused(self):
        """The heads are good: taken from real packets, with other sequence numbers, senders and kinds."""
        region = self.region(FILE, size=2, **PATIENT)
        rpc, gossip = self.watch(region)
        self.spend(region)
        time.sleep(0.5)
        real = [packet for heard in rpc.heard for packet in packets_of_peers(heard)][-40:]
        real += [packet for heard in gossip.heard for packet in packets_of_gossip(heard)][-10:]
        self.assertTrue(all(packet.startswith(MAGIC) for packet in real))
        false = []
        for packet in real:
            for kind in range(12):  # with a sequence number that was not seen
                false.append(packet[:4] + bytes([kind]) + packet[5:48] + struct.pack("<Q", 1 << 40) + packet[56:])
            place = self.dice.randrange(HEAD_BYTES, len(packet) - MAC_BYTES + 1)
            false.append(packet[:place] + bytes([packet[place] ^ 1 << self.dice.randrange(8)]) + packet[place + 1:])
            false.append(packet[:self.dice.randrange(len(packet))])
            false.append(packet[:HEAD_BYTES] + self.dice.randbytes(200))
        before = self.picture(region)
        self.send_all(region, false)
        time.sleep(1)
        self.assertEqual(self.picture(region), before)
        self.assertIn("does not hold against this cluster's secret", region.nodes[0].read_log())

    # --- nodes ---

    @staticmethod
    def view(region):
        """Who is known to whom. On a busy machine one may suspect another for a moment: that is no news here."""
        return [set(region.states(node)) for node in region.nodes[:2]], region.owners(region.nodes[0])

    def check_stays_out(self, region, stranger, line):
        before = self.view(region)
        stranger.start()
        cluster.until(f"a log says: {line}", lambda: any(line in node.read_log() for node in region.nodes[:2]))
        time.sleep(WATCHED_S)
        self.assertEqual(self.view(region), before)
        self.assertEqual(set(region.states(stranger)), {stranger.name})
        self.spend(region)
        self.assertEqual(case.remaining(region.nodes[0], {"user": USERS[0]}), QUOTA - 5)
        self.assertEqual(case.remaining(stranger, {"user": USERS[0]}), QUOTA, "it spends nothing of the region's")

    def test_a_node_without_the_secret_cannot_join(self):
        region = self.region(FILE, size=2, **PATIENT).start()
        stranger = region.add()
        other = os.path.join(region.folder, "other")
        cluster.write_secret(other)
        stranger.write(secret_file=other)
        self.check_stays_out(region, stranger, "does not hold against this cluster's secret")

    def test_a_node_of_another_cluster_is_refused(self):
        region = self.region(FILE, size=2, **PATIENT).start()
        stranger = region.add()
        stranger.write(cluster="other")
        self.check_stays_out(region, stranger, "a node of another cluster wrote")

    @staticmethod
    def name_regions(*nodes):
        for node in nodes:
            with open(node.file, "a", encoding="utf-8") as file:
                file.write("regions: {eu: {}, us: {}}\n")

    def test_a_node_of_another_region_shares_members_and_no_counters(self):
        region = self.region(FILE, size=2, **PATIENT)
        self.name_regions(*region.nodes)
        region.start()
        other = region.add()
        other.write(region="us")
        self.name_regions(other)
        owners = region.owners(region.nodes[0])
        other.start()
        cluster.until("all know each other", lambda: all(
            set(region.states(node).values()) == {"alive"} and len(region.states(node)) == 3 for node in region.nodes))
        self.spend(region)
        self.assertEqual(region.owners(region.nodes[0]), owners)
        cluster.until("the other region has begun", lambda: set(region.owners(other)) == {other.name})
        self.assertEqual(case.remaining(other, {"user": USERS[0]}), QUOTA)
        self.assertEqual(case.remaining(region.nodes[0], {"user": USERS[0]}), QUOTA - 5)

    def test_a_node_of_a_region_that_no_file_names_is_refused(self):
        region = self.region(FILE, size=2, **PATIENT).start()
        stranger = region.add()
        stranger.write(region="us")
        self.name_regions(stranger)
        self.check_stays_out(region, stranger, "its region is not among this node's regions")
        cluster.until("the stranger says that it is alone",
                      lambda: "no node of cluster.join has answered" in stranger.read_log())

    def test_a_second_node_of_the_same_name_takes_nothing_from_the_first_silently(self):
        """The later one stays, and the earlier one says why it stops."""
        region = self.region(FILE, size=2, **PATIENT).start()
        self.spend(region)
        twin = cluster.Node(region, "n2", region.region)
        twin.data, twin.file, twin.log = (os.path.join(region.folder, "twin" + end) for end in ("", ".yaml", ".log"))
        twin.write()
        time.sleep(1.1)  # lives are told apart by the second
        region.nodes.append(twin)
        twin.start()
        first = region.nodes[1]
        cluster.until("the first has stopped", lambda: first.process.poll() is not None)
        self.assertIn("name", first.read_log())


if __name__ == "__main__":
    case.main()
