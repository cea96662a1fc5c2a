"""Parts of asyncio that the host needs that is not on a request's way: loops, lifespan, the end.

Compiled into the host and run once, in each worker or, where it is known there that they serve ASGI, in the process that they are forks of.
"""

import asyncio
import concurrent.futures
import sys
import threading
import traceback

try:
    import uvloop
except ImportError:
    uvloop = None


def make_loop():
    """An event loop, uvloop's where that can be imported; it is the current one from here on."""
    loop = (uvloop or asyncio).new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


async def size_threads(count, stack_size):
    """Threads for what must not hold up the loop: of `asyncio.to_thread`, and of anyio (Starlette's functions without `async`)."""
    if stack_size:
        threading.stack_size(stack_size)
    if count > 1:
        executor = concurrent.futures.ThreadPoolExecutor(count, thread_name_prefix="asyncio")
        asyncio.get_running_loop().set_default_executor(executor)
        if "anyio" in sys.modules:
            from anyio.to_thread import current_default_thread_limiter

            current_default_thread_limiter().total_tokens = count


class Lifespan:
    """The conversation with an application about its start and end."""

    def __init__(self, application, is_double, scope):
        self.application, self.is_double, self.scope = application, is_double, scope
        self.inbox = asyncio.Queue()
        self.started = self.ended = self.task = None
        self.is_supported = True
        self.has_asked = False

    async def receive(self):
        self.has_asked = True
        return await self.inbox.get()

    async def send(self, message):
        kind = message["type"]
        if kind in ("lifespan.startup.complete", "lifespan.startup.failed"):
            answer = self.started
        elif kind in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
            answer = self.ended
        else:
            raise ValueError(f"`{kind}` cannot be sent here: lifespan.startup or lifespan.shutdown, complete or failed")
        if answer is None or answer.done():
            raise RuntimeError(f"`{kind}` was sent at the wrong time")
        answer.set_result(message.get("message", "") if kind.endswith("failed") else None)

    async def run(self):
        if self.is_double:
            await self.application(self.scope)(self.receive, self.send)
        else:
            await self.application(self.scope, self.receive, self.send)

    async def _ask(self, what, answer):
        self.inbox.put_nowait({"type": what})
        await asyncio.wait([self.task, answer], return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        # It went without an answer: it does not know lifespan, or has failed.
        return None

    async def startup(self):
        """Returns the reason why the application is not up, and what to tell in the log: each may be None."""
        loop = asyncio.get_running_loop()
        self.started, self.ended = loop.create_future(), loop.create_future()
        self.task = loop.create_task(self.run())
        reason = await self._ask("lifespan.startup", self.started)
        if reason is not None:
            # An application that reports a failure ends with the reason, which is logged as a whole.
            await asyncio.wait([self.task], timeout=1)
            return reason, self._raised()
        if self.started.done():
            return None, None
        # An exception before any answer means that lifespan is not supported: requests are served nevertheless (ASGI, Lifespan
        # Protocol). One that raised at once does not know the scope; one that asked for the message first has failed.
        self.is_supported = False
        error = None if not self.task.done() or self.task.cancelled() else self.task.exception()
        if error is None or self.has_asked or len(traceback.extract_tb(error.__traceback__)) > 2:
            return None, self._raised()
        return None, "".join(traceback.format_exception_only(error))

    def _raised(self):
        """The traceback of what ended the application, if it was an exception."""
        if not self.task.done() or self.task.cancelled() or self.task.exception() is None:
            return None
        return "".join(traceback.format_exception(self.task.exception()))

    async def shutdown(self):
        """Returns None when the application has shut down, or the reason why not."""
        if not self.is_supported or self.task.done():
            return None
        reason = await self._ask("lifespan.shutdown", self.ended)
        if self.task.done() and not self.task.cancelled() and self.task.exception():
            raise self.task.exception()
        return reason


def finish(loop):
    """Ends what is left: tasks, asynchronous generators, the threads of the default executor."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=5))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
