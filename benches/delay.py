#!/usr/bin/env python3
"""A cable between two network namespaces on which each packet takes its time, or gets lost.

usage: delay.py NEAR FAR MILLISECONDS [LOSS_PERCENT]

For kernels without netem. Each namespace gets a tun device, NEAR with the address 10.77.0.1 and FAR
with 10.77.0.2. Prints "ready", then passes packets until it is ended. Needs root and iproute2.
"""

import collections
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
# Packets on their way in one direction; more are dropped, as a router does.
LONGEST_QUEUE = 20_000


def ip(*args):
    subprocess.run(["ip", *args], check=True)


def end_of_cable(space, name, address):
    """A tun device in `space`; the descriptor stays with it when it moves there."""
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    ip("link", "set", name, "netns", space)
    ip("-n", space, "addr", "add", address, "dev", name)
    ip("-n", space, "link", "set", name, "up", "txqueuelen", "10000")
    return tun


def take(tun):
    """All packets that have come to `tun`."""
    while True:
        try:
            yield os.read(tun, 65536)
        except BlockingIOError:
            return


def pass_on(tuns, delay, loss):
    other = {tuns[0]: tuns[1], tuns[1]: tuns[0]}
    ways = {tun: collections.deque() for tun in tuns}
    while True:
        dues = [way[0][0] for way in ways.values() if way]
        wait = max(0, min(dues) - time.monotonic()) if dues else None
        ready, _, _ = select.select(tuns, [], [], wait)
        now = time.monotonic()
        for tun in ready:
            way = ways[other[tun]]
            for packet in take(tun):
                if len(way) < LONGEST_QUEUE and random.random() >= loss:
                    way.append((now + delay, packet))
        now = time.monotonic()
        for tun, way in ways.items():
            while way and way[0][0] <= now:
                try:
                    os.write(tun, way.popleft()[1])
                except OSError:
                    pass  # the device's own queue is full: the packet is lost


def main():
    near, far, milliseconds = sys.argv[1:4]
    loss = float(sys.argv[4]) / 100 if len(sys.argv) > 4 else 0
    random.seed(1)
    n = os.getpid()
    tuns = [
        end_of_cable(near, f"near{n}", "10.77.0.1/24"),
        end_of_cable(far, f"far{n}", "10.77.0.2/24"),
    ]
    print("ready", flush=True)
    pass_on(tuns, float(milliseconds) / 1000, loss)


if __name__ == "__main__":
    main()
