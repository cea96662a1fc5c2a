"""As agents do it: starts a thread, which no process has that is forked later, and leaves a mark."""

import builtins
import os
import threading

if "CUSTOMIZED_FAILS" in os.environ:
    raise RuntimeError("no agent today")
threading.Thread(target=threading.Event().wait, daemon=True).start()
builtins.customized = os.getpid()
