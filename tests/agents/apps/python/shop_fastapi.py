from fastapi import FastAPI

app = FastAPI()


@app.get("/items/{number}")
async def item(number: int):
    return {"number": number}


@app.get("/fails")
async def fails():
    raise ValueError("out of stock")
