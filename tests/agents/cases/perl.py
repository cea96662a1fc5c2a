"""Perl: Devel::Cover and Devel::NYTProf."""

import os
import re
import subprocess

import packages
from case import Case


class Perl(Case):
    source = "perl"
    packages = ()

    def libraries(self):
        """PERL5LIB with the folders of the unpacked packages."""
        folder = packages.debian(*self.packages)
        return ":".join(str(path) for pattern in ("usr/lib/*/perl5/*", "usr/share/perl5") for path in sorted(folder.glob(pattern)))

    def places(self):
        return {'"PERL5OPT"': f'"PERL5LIB": "{self.libraries()}", "PERL5OPT"'}

    def check(self, server):
        assert self.get(server, "/items/4") == "item 4, 8\n"


class DevelCover(Perl):
    """The lines that have run, from what each process writes at its end."""

    name = "devel-cover"
    heading = "Devel::Cover"
    packages = ("libdevel-cover-perl", "libb-debug-perl", "libhtml-parser-perl")

    def after_stop(self, server):
        [program] = packages.debian(*self.packages).glob("usr/bin/cover")
        done = subprocess.run(["/usr/bin/perl", program, "-silent", "-report", "text", "-coverage", "statement", self.root / "out/cover"], capture_output=True, text=True, check=False,
                              env={**os.environ, "PERL5LIB": self.libraries()}, cwd=self.root)
        assert done.returncode == 0, done.stdout + done.stderr
        # The last part of the report has the lines of each file, below its name.
        text = done.stdout.rpartition("Shop.pm\n")[2].partition("app.psgi")[0]
        lines = {int(number): int(count) for number, count in re.findall(r"^(\d+) +(?:\*\*\*)? +(\d+) ", text, re.M)}
        assert lines.get(7) == 1 and lines.get(8) == 1 and lines.get(12) == 0, done.stdout[-3000:]
        return "lines 7 and 8 have run, and line 12 has not"


class NYTProf(Perl):
    """The calls that a process has counted."""

    name = "devel-nytprof"
    heading = "Devel::NYTProf"
    packages = ("libdevel-nytprof-perl",)

    def after_stop(self, server):
        written = list((self.root / "out").glob("nytprof*"))
        assert written, "no profile was written"
        counted = []
        for file in written:
            done = subprocess.run(["/usr/bin/perl", "-MDevel::NYTProf::Data", "-e", "my $profile = Devel::NYTProf::Data->new({filename => shift});"
                                   "print join ' ', map { $_->subname . '=' . $_->calls } values %{$profile->subname_subinfo_map}", file],
                                  capture_output=True, text=True, check=False, env={**os.environ, "PERL5LIB": self.libraries()})
            assert done.returncode == 0, f"{file}, {file.stat().st_size} bytes of {len(written)} files: {done.stderr}"
            counted += re.findall(r"Shop::item=(\d+)", done.stdout)
        assert "1" in counted, counted
        return "Shop::item was called once"


CASES = [DevelCover, NYTProf]
