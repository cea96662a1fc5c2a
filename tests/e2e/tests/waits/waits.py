# As index.php.
import fcntl
import select
import socket
import subprocess
import tempfile
import time


def sleep():
    time.sleep(1)
    return True


def wait_for_one():
    one, other = socket.socketpair()
    return select.select([one], [], [], 1) == ([], [], [])


def read():
    one, other = socket.socketpair()
    one.settimeout(1)
    try:
        one.recv(1)
    except TimeoutError:
        return True
    return False


def lock():
    with tempfile.NamedTemporaryFile() as file:
        command = ["flock", file.name, "sh", "-c", "echo held; sleep 1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            held = holder.stdout.readline() == b"held\n"
            fcntl.flock(file, fcntl.LOCK_EX)
            return held


WAYS = {"sleep": sleep, "select": wait_for_one, "read": read, "lock": lock}


def application(environ, start_response):
    how = environ["QUERY_STRING"].removeprefix("how=")
    begun = time.monotonic()
    is_whole = WAYS[how]()
    took = int((time.monotonic() - begun + (how == "lock")) * 1000)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{'whole' if is_whole else 'broken'} {took}".encode()]
