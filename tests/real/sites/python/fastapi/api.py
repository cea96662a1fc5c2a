"""A FastAPI application: models, dependencies, background tasks, lifespan, streams of Starlette's."""

import asyncio
import contextlib
import hashlib
import sys

from fastapi import BackgroundTasks, Depends, FastAPI, Header, HTTPException, Request
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel

done = []


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"started": "by lifespan"}


app = FastAPI(lifespan=lifespan)
app.add_middleware(GZipMiddleware, minimum_size=100_000)


class Item(BaseModel):
    name: str
    price: float


def token(x_token: str = Header()):
    if x_token != "sesame":
        raise HTTPException(403, "wrong token")
    return x_token


@app.get("/")
async def index(request: Request):
    return {"started": request.state.started, "loop": type(asyncio.get_running_loop()).__module__, "python": sys.version_info[:2]}


@app.post("/items/{number}", status_code=201)
async def make(number: int, item: Item, tasks: BackgroundTasks, token: str = Depends(token)):
    tasks.add_task(done.append, number)
    return {"number": number, "item": item, "total": item.price * 2}


@app.get("/done")
def see():
    # In a thread of the pool.
    return done


@app.get("/events")
async def events(count: int = 3):
    async def lines():
        for number in range(count):
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.01)
    return StreamingResponse(lines(), media_type="text/event-stream")


@app.post("/digest")
async def digest(request: Request):
    sum, length = hashlib.sha256(), 0
    async for chunk in request.stream():
        sum.update(chunk)
        length += len(chunk)
    return {"digest": sum.hexdigest(), "length": length}


@app.get("/large")
async def large():
    async def pieces():
        for _ in range(200):
            yield b"x" * 50_000
    return StreamingResponse(pieces(), media_type="application/octet-stream")


@app.get("/source")
async def source():
    return FileResponse(__file__)


@app.get("/fails")
async def fails():
    raise RuntimeError("on purpose")
