import debugpy
from shop import app  # noqa: F401

debugpy.listen(("127.0.0.1", 5678))
