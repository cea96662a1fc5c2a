async def application(scope, receive, send):
    assert {"http.response.early_hint", "http.response.trailers"} <= scope["extensions"].keys()
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload; as=style"]})
    await send({"type": "http.response.start", "status": 200, "trailers": True, "headers": [(b"trailer", b"X-Sum")]})
    await send({"type": "http.response.body", "body": b"whole"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"5")]})
