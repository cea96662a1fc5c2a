#!/usr/bin/env python3
"""Cases of the groups that a client can choose, by the library websockets: client.py URL [CA-FILE], an application that echoes.

The numbers are those of the groups of the case table beside this folder. `client.js` and `websocket-client` in tests/real/go are the same.
"""

import asyncio
import os
import ssl
import sys

import websockets

SIZES = [0, 1, 125, 126, 127, 128, 65535, 65536]
TEXTS = ["Hello-µ@ßöäüàá-UTF-8!!", "κόσμε", "𝄞🙂", "\0\x7f\u0080\u07ff\u0800\uffff\U0010ffff", "日本語" * 1000]
CODES = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
LARGE = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24]


async def main(url, authority=None):
    context = ssl.create_default_context(cafile=authority) if authority else None
    count = 0

    def connect():
        return websockets.connect(url, ssl=context, max_size=1 << 25, compression=None, open_timeout=60, ping_interval=None, close_timeout=60)

    async def same(socket, message, sent=None):
        nonlocal count
        await socket.send(message if sent is None else sent)
        answer = await asyncio.wait_for(socket.recv(), 60)
        assert answer == message, (message[:40], answer[:40])
        count += 1

    async with connect() as socket:
        for size in SIZES:  # 1
            await same(socket, "*" * size)
            await same(socket, b"\xfe" * size)
        for payload in [b"", b"Hello, world!", b"\0\xff\xfe", b"*" * 125]:  # 2
            await asyncio.wait_for(await socket.ping(payload), 60)
            count += 1
        for pong in [await socket.ping(bytes([number])) for number in range(10)]:
            await asyncio.wait_for(pong, 60)
        await socket.pong(b"unasked")
        await same(socket, "after a pong")
        await same(socket, "fragment1fragment2", ["fragment1", "fragment2"])  # 5
        await same(socket, b"fragment1fragment2", [b"fragment1", b"fragment2"])
        await same(socket, "bytes", list("bytes"))

        async def interrupted():
            yield "one"
            await asyncio.wait_for(await socket.ping(b"between"), 60)
            yield "two"
        await same(socket, "onetwo", interrupted())
        for text in TEXTS:  # 6
            await same(socket, text)
            await same(socket, text, list(text))
        for size in LARGE:  # 9
            await same(socket, "*" * size)
            await same(socket, os.urandom(size))
        many = [f"message {number}" for number in range(1000)]
        for message in many:
            await socket.send(message)
        assert [await asyncio.wait_for(socket.recv(), 60) for _ in many] == many
        pieces = b"*" * 65536
        await same(socket, pieces, [pieces[start:start + 1300] for start in range(0, 65536, 1300)])  # 10
    for code in CODES:  # 7
        async with connect() as socket:
            await socket.close(code, "because")
            assert (socket.close_code, socket.close_reason) == (code, "because"), (socket.close_code, socket.close_reason)
        async with connect() as socket:
            await socket.send(f"close {code} as you wish")
            await asyncio.wait_for(socket.wait_closed(), 60)
            assert (socket.close_code, socket.close_reason) == (code, "as you wish"), (socket.close_code, socket.close_reason)
        count += 2
    print(f"{count} cases")


asyncio.run(main(*sys.argv[1:]))
