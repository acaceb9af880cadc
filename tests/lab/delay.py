"""A slow link: carries packets between two TUN devices and holds each for half of the delay, and for its turn on a narrow one.

Usage: delay.py NETNS NAME HOST_ADDRESS MACHINE_ADDRESS MILLISECONDS[/MBIT] READY_FILE
While it runs, packets between the two addresses take this way in place of the cable; when it ends they take the cable.
"""
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
# Seconds that the queue before a narrow line holds.
QUEUE = 0.1
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


def carry(near, far, half, per_byte):
    waiting, order = [], itertools.count()
    free = {near: 0.0, far: 0.0}
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for fd in select.select([near, far], [], [], pause)[0]:
            while True:
                try:
                    packet = os.read(fd, 65536)
                except BlockingIOError:
                    break
                # One packet after the other; what would wait for too long is dropped, as by the router before a narrow line.
                now = time.monotonic()
                if per_byte and free[fd] - now > QUEUE:
                    continue
                free[fd] = max(now, free[fd]) + len(packet) * per_byte
                heapq.heappush(waiting, (free[fd] + half, next(order), far if fd == near else near, packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, fd, packet = heapq.heappop(waiting)
            try:
                os.write(fd, packet)
            except OSError:
                pass  # a packet that the device does not take is lost, as on a wire


if __name__ == "__main__":
    main()
