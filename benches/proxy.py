#!/usr/bin/env python3
"""A TCP proxy in front of a server on this machine that takes its time, or loses answers.

usage: proxy.py LISTEN_PORT SERVER_PORT MILLISECONDS [CUT_PERCENT]

Each round trip takes so many milliseconds longer: half of them in each direction. A new connection takes one more round
trip, for its handshake. Of the requests `PUT .../root`, CUT_PERCENT lose their answer: the server gets the request and
answers it, but the client's connection is closed instead. Prints "ready". On SIGUSR1 it prints `CUTS BYTES`: how many
answers it has cut, and how many bytes have come from clients.
"""

import asyncio
import collections
import random
import re
import signal
import sys

PIECE_BYTES = 256 << 10
# Bytes on their way in one direction of one connection. More wait at the sender, as in a TCP window.
WINDOW_BYTES = 64 << 20
ROOT = re.compile(rb"PUT \S*/root(\?\S*)? HTTP/1")


class Way:
    """One direction: what came is passed on after its time."""

    def __init__(self, loop, writer, delay):
        self.loop, self.writer, self.delay = loop, writer, delay
        self.pieces, self.bytes = collections.deque(), 0
        self.changed = asyncio.Event()

    def put(self, piece, more=0.0):
        self.pieces.append((self.loop.time() + self.delay + more, piece))
        self.bytes += len(piece or b"")
        self.changed.set()

    async def room(self):
        while self.bytes > WINDOW_BYTES:
            await asyncio.sleep(0.001)

    async def pass_on(self):
        """Ends with the piece `None`."""
        while True:
            while not self.pieces:
                self.changed.clear()
                await self.changed.wait()
            due, piece = self.pieces.popleft()
            wait = due - self.loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            if piece is None:
                return
            self.bytes -= len(piece)
            self.writer.write(piece)
            await self.writer.drain()


async def read(reader):
    """The next bytes. A connection that was reset has ended, too."""
    try:
        return await reader.read(PIECE_BYTES)
    except OSError:
        return b""


class Proxy:
    def __init__(self, server_port, delay, cut):
        self.server_port, self.delay, self.cut = server_port, delay, cut
        self.cuts, self.bytes = 0, 0

    async def serve(self, reader, writer):
        loop = asyncio.get_running_loop()
        try:
            to_server = await asyncio.open_connection("127.0.0.1", self.server_port)
        except OSError:
            writer.close()
            return
        forth, back = Way(loop, to_server[1], self.delay / 2), Way(loop, writer, self.delay / 2)
        is_cut = False

        async def requests():
            nonlocal is_cut
            first = True
            while piece := await read(reader):
                self.bytes += len(piece)
                if self.cut and ROOT.match(piece):
                    is_cut = random.random() < self.cut
                forth.put(piece, self.delay if first else 0)
                first = False
                await forth.room()
            forth.put(None)

        async def answers():
            while piece := await read(to_server[0]):
                if is_cut:
                    self.cuts += 1
                    break
                back.put(piece)
                await back.room()
            back.put(None)

        tasks = [asyncio.ensure_future(work) for work in (requests(), answers(), forth.pass_on(), back.pass_on())]
        # The connection ends when one of its directions has passed everything on.
        await asyncio.wait(tasks[2:], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in (writer, to_server[1]):
            end.close()

    def tell(self):
        print(self.cuts, self.bytes, flush=True)


async def main():
    listen, server, milliseconds = (float(word) for word in sys.argv[1:4])
    cut = float(sys.argv[4]) / 100 if len(sys.argv) > 4 else 0
    random.seed(1)
    proxy = Proxy(int(server), milliseconds / 1000, cut)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, proxy.tell)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", int(listen), limit=2 * PIECE_BYTES)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
