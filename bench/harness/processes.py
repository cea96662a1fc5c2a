"""Measures what a server costs: its process tree, the CPU it used and the memory it holds, read from /proc."""

import os
import signal
import subprocess
import time
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _stat(pid):
    """The fields of /proc/PID/stat after the command name, or None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()  # [0] is the state, field 3 of proc(5)


def tree(root):
    """`root` and all its living descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            fields = _stat(entry)
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry))
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, ()))
    return found


def cpu_seconds(root):
    """User and system time of the whole tree, with all threads.

    `utime` and `stime` cover a process's threads; `cutime` and `cstime` its *reaped* descendants. So the sum of
    the four over the living counts each process once, the dead through the process that reaped them.
    """
    ticks = 0
    for pid in tree(root):
        fields = _stat(pid)
        if fields:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / TICKS_PER_SECOND


def command(pid):
    """The process title, or the command's name when it has none."""
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
        return line.decode(errors="replace") or Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def router_cost(roots):
    """Processor seconds and voluntary context switches of the threads of Tutti's router so far; None for another server."""
    routers = [pid for root in roots for pid in tree(root) if command(pid) == "tutti: router"]
    if not routers:
        return None
    ticks = switches = 0
    for task in Path(f"/proc/{routers[0]}/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
        status = (task / "status").read_text()
        switches += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return ticks / TICKS_PER_SECOND, switches


def pss_bytes(root):
    """Proportional set size of each process of the tree: {pid: bytes}."""
    return _memory(root, ("Pss:",))


def private_bytes(root):
    """Memory that no other process has, of each process of the tree: what would be free without it (USS)."""
    return _memory(root, ("Private_Clean:", "Private_Dirty:"))


def written_bytes(root):
    """Private memory of each process of the tree without the pages of files, which other servers of the same program may share."""
    return _memory(root, ("Private_Dirty:",))


def _memory(root, fields):
    sizes = {}
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        sizes[pid] = sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(fields))
    return sizes


def machine_busy_seconds():
    """CPU time the whole machine has spent not idle (steal included), for the noise figure."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / TICKS_PER_SECOND


def wait_until(condition, seconds, what):
    """Polls `condition` until it is true; raises TimeoutError naming `what`."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.02)


class Process:
    """One started server process, ended by its pid with everything below it."""

    def __init__(self, arguments, log, env=None, cwd=None):
        self.log = Path(log)
        with open(self.log, "ab") as output:
            self.popen = subprocess.Popen(
                [str(argument) for argument in arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env=env, cwd=cwd, start_new_session=True,
            )
        self.pid = self.popen.pid

    def is_alive(self):
        return self.popen.poll() is None

    def stop(self, gently=signal.SIGTERM, seconds=15):
        """Asks the root to end; kills what is left of the tree (only pids that were below it)."""
        if not self.is_alive():
            return
        pids = tree(self.pid)
        self.popen.send_signal(gently)
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for pid in pids[1:]:
            fields = _stat(pid)
            # Still there and not a recycled number: it kept the session that this object started.
            if fields and int(fields[3]) == self.pid:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
