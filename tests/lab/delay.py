"""A slow link: carries packets between two TUN devices and holds each for half of the delay, and for its turn on a narrow one.

Usage: delay.py NETNS NAME HOST_ADDRESS MACHINE_ADDRESS MILLISECONDS[/MBIT] READY_FILE
While it runs, packets between the two addresses take this way in place of the cable; when it ends they take the cable.
"""
import collections
import ctypes
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
# Seconds that the queue of one flow before a narrow line holds.
QUEUE = 0.1
# Seconds by which this program may look too late at the line.
TICK = 0.002
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
LIBC = ctypes.CDLL(None, use_errno=True)


def enter(fd):
    if LIBC.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def open_tun(name):
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def ip(*argv):
    subprocess.run(["ip", *argv], check=True)


def main():
    ns, name, host, machine, delay, ready = sys.argv[1:7]
    delay, _, mbit = delay.partition("/")
    half = float(delay) / 2000
    per_byte = 8e-6 / float(mbit) if mbit else 0.0
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{ns}", os.O_RDONLY)
    near = open_tun(name)
    enter(there)
    far = open_tun(name)
    enter(here)
    ip("link", "set", name, "up")
    ip("-n", ns, "link", "set", name, "up")
    ip("route", "add", machine + "/32", "dev", name, "src", host)
    ip("-n", ns, "route", "add", host + "/32", "dev", name, "src", machine)
    open(ready, "w").close()
    carry(near, far, half, per_byte)


class Line:
    """One direction of a narrow line: one packet after the other, each flow in its turn, as a router with fair queues does it.

    What would wait for too long in its flow's queue is dropped.
    """

    def __init__(self, per_byte):
        self.per_byte = per_byte
        self.free = 0.0
        self.order = itertools.count()
        self.turn = 0
        self.last = {}
        self.queued = collections.Counter()
        self.heap = []

    def take(self, packet):
        # The ports of TCP and UDP over IPv4.
        flow = packet[20:24]
        if self.queued[flow] * self.per_byte > QUEUE:
            return
        self.queued[flow] += len(packet)
        self.last[flow] = max(self.turn, self.last.get(flow, 0)) + len(packet)
        heapq.heappush(self.heap, (self.last[flow], next(self.order), flow, packet))

    def give(self, now):
        """Gives what has passed, with the moment at which it had."""
        while self.heap and self.free <= now:
            self.turn, _, flow, packet = heapq.heappop(self.heap)
            self.queued[flow] -= len(packet)
            self.free = max(self.free, now - TICK) + len(packet) * self.per_byte
            yield self.free, packet


def carry(near, far, half, per_byte):
    lines = {near: Line(per_byte), far: Line(per_byte)}
    order, waiting = itertools.count(), []
    while True:
        now = time.monotonic()
        due = [line.free for line in lines.values() if line.heap] + [moment for moment, *_ in waiting[:1]]
        pause = max(0.0, min(due) - now) if due else None
        for fd in select.select([near, far], [], [], pause)[0]:
            while True:
                try:
                    lines[fd].take(os.read(fd, 65536))
                except BlockingIOError:
                    break
        now = time.monotonic()
        for fd, line in lines.items():
            for passed, packet in line.give(now):
                heapq.heappush(waiting, (passed + half, next(order), far if fd == near else near, packet))
        while waiting and waiting[0][0] <= now:
            _, _, fd, packet = heapq.heappop(waiting)
            try:
                os.write(fd, packet)
            except OSError:
                pass  # a packet that the device does not take is lost, as on a wire


if __name__ == "__main__":
    main()
