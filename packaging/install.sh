#!/bin/sh
# Installs Tutti: `curl -fsSL ADDRESS/install.sh | sh`, or with `wget -qO-`; options as in `| sh -s -- --help`.
#
# On Debian, Fedora, RHEL and Alpine, root gets the packages of Tutti's repository. Elsewhere, and for other users, it is the archive for any Linux with
# glibc, in /usr/local or ~/.local. What is downloaded is used only if the checksums are signed with the key below. `tutti self-update` runs this script.
set -euf
# Applications of other users read what is installed.
umask 022

# The maintainers fill in where releases are published, and the public key of minisign (docs/project/releasing.md).
address=https://releases.tutti.invalid
key=

say() {
    printf '%s\n' "$1"
}

fail() {
    printf 'install.sh: %s; hint: %s\n' "$1" "$2" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

usage() {
    cat <<END
Installs Tutti, or the newest version of it.

  --version VERSION  this version, instead of the newest
  --method METHOD    deb, rpm, apk (the repository of packages, as root) or tar (an archive), instead of what this system has
  --prefix FOLDER    where the archive is installed: /usr/local for root, else ~/.local
  --from ADDRESS     where releases are published, instead of $address
  --key KEY          the public key of that publisher, a line of minisign
  --dry-run          only says what would be done
  --update           the archive's installation alone, if there is a newer version (\`tutti self-update\`)
END
}

# Plain HTTP is for this machine alone: a name that only begins like its own is another machine's.
scheme_of() {
    case "$1" in
        https://*) echo https ;;
        http://*)
            host="${1#http://}"
            host="${host%%/*}"
            for own_host in 127.0.0.1 localhost '[::1]'; do
                case "${host#"$own_host"}" in
                    "$host" | :*[!0-9]*) ;;
                    '' | :[0-9]*) echo http && return ;;
                esac
            done
            fail "\`$1\` is not encrypted" "use https://"
            ;;
        *) fail "\`$1\` is no address" "use https://" ;;
    esac
}

# fetch PATH FILE: one file of the publisher.
fetch() {
    if has curl; then
        curl -fsSL --proto "=$scheme" --proto-redir "=$scheme" -o "$2" "$address/$1" || fail "\`$address/$1\` cannot be fetched" "the reason is above"
    elif has wget; then
        wget -q -O "$2" "$address/$1" || fail "\`$address/$1\` cannot be fetched" "check the network, or install curl for a reason"
    else
        fail "there is neither curl nor wget" "install curl"
    fi
}

# bytes FILE FIRST COUNT
bytes() {
    tail -c "+$2" "$1" | head -c "$3"
}

# The signature of minisign, checked by openssl: Ed25519 of the file's BLAKE2b, then of that signature with the trusted comment. `$1` is the file.
signed_by_openssl() {
    printf '%s' "$key" | base64 -d >"$work/key" 2>/dev/null || return 1
    sed -n 2p "$1.minisig" | base64 -d >"$work/signature" 2>/dev/null || return 1
    sed -n 4p "$1.minisig" | base64 -d >"$work/global" 2>/dev/null || return 1
    [ "$(bytes "$work/key" 1 2)" = Ed ] && [ "$(bytes "$work/signature" 1 2)" = ED ] || return 1
    [ "$(bytes "$work/key" 3 8 | od -An -tx1)" = "$(bytes "$work/signature" 3 8 | od -An -tx1)" ] || return 1
    # An Ed25519 key in DER.
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && bytes "$work/key" 11 32; } >"$work/key.der"
    bytes "$work/signature" 11 64 >"$work/plain"
    openssl dgst -blake2b512 -binary "$1" >"$work/hash" || return 1
    { cat "$work/plain" && sed -n '3s/^trusted comment: //p' "$1.minisig" | tr -d '\n'; } >"$work/commented"
    openssl pkeyutl -verify -rawin -pubin -keyform DER -inkey "$work/key.der" -in "$work/hash" -sigfile "$work/plain" >/dev/null 2>&1 &&
        openssl pkeyutl -verify -rawin -pubin -keyform DER -inkey "$work/key.der" -in "$work/commented" -sigfile "$work/global" >/dev/null 2>&1
}

# is_signed FILE: FILE.minisig is the publisher's signature of it.
is_signed() {
    if has minisign; then
        minisign -V -q -P "$key" -m "$1" >/dev/null 2>&1
    elif has openssl && openssl version | grep -q '^OpenSSL [3-9]'; then
        signed_by_openssl "$1"
    else
        fail "there is nothing to check the signature with" "install minisign (Alpine: apk add minisign), or OpenSSL 3"
    fi
}

# The newest version: `latest` is a signature of an empty file, whose comment has it and the day. A minor version has fixes for a year, so an older statement
# names none that has them, and the server may hide newer ones.
fetch_newest() {
    fetch latest "$work/latest.minisig"
    : >"$work/latest"
    is_signed "$work/latest" || fail "\`$address/latest\` is not signed with the key $key" "do not use this server; tell the maintainers"
    newest="$(sed -n '3s/^trusted comment: tutti latest //p' "$work/latest.minisig")"
    version="${newest% *}" day="${newest#* }"
    case "$day" in
        [0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]) ;;
        *) fail "\`$address/latest\` names no version and day" "tell the maintainers" ;;
    esac
    [ "$(printf '%s' "$day" | tr -d -)" -ge "$(($(date -u +%Y%m%d) - 10000))" ] ||
        fail "$address says that $version is the newest version, as of $day, more than a year ago" "check this machine's date; ask the maintainers for the newest version, and give it with --version"
    say "The newest version is $version, as the publisher has signed on $day."
}

# The lowest of versions in the notation of any kind of package. A release candidate comes before its release.
lowest() {
    printf '%s\n' "$@" | sed '/[-~_]/!s/$/.1/; s/[-~_]/.0./' | sort -V | head -n 1
}

is_older() {
    [ "$1" != "$2" ] && [ "$(lowest "$1" "$2")" = "$(lowest "$1")" ]
}

# The list of checksums of this version, whose signature is the publisher's.
fetch_checksums() {
    fetch "releases/$version/SHA256SUMS" "$work/SHA256SUMS"
    fetch "releases/$version/SHA256SUMS.minisig" "$work/SHA256SUMS.minisig"
    is_signed "$work/SHA256SUMS" || fail "the checksums of $version are not signed with the key $key" "do not use this download; tell the maintainers"
    # An old release, offered as this one, is signed as the old one. Only the third line is signed: minisign ignores what follows the fourth.
    [ "$(sed -n 3p "$work/SHA256SUMS.minisig")" = "trusted comment: tutti $version" ] || fail "the signature is of another version than $version" "do not use this download; tell the maintainers"
    say "The checksums of $version are signed with the key $key."
}

# fetch_checked NAME: a file of the release, with the checksum that was signed.
fetch_checked() {
    expected="$(awk -v name="$1" '$2 == name { print $1 }' "$work/SHA256SUMS")"
    [ -n "$expected" ] || fail "release $version has no \`$1\`" "look at $address/releases/$version/SHA256SUMS for what there is"
    fetch "releases/$version/$1" "$work/$1"
    found="$(sha256sum "$work/$1" | cut -d ' ' -f 1)"
    [ "$found" = "$expected" ] || fail "the checksum of \`$1\` is $found, not $expected" "do not use this download; try again, then tell the maintainers"
}

# Debian, Fedora, RHEL and Alpine have a repository of packages: deb, rpm, apk. All else gets the archive.
method_of_system() {
    [ "$(id -u)" -eq 0 ] || { echo tar && return; }
    for name in $(sed -nE 's/^ID(_LIKE)?=//p' /etc/os-release 2>/dev/null | tr -d "\"'"); do
        case "$name" in
            debian) ! has_debs || { echo deb && return; } ;;
            fedora | rhel | centos) echo rpm && return ;;
            alpine) echo apk && return ;;
        esac
    done
    echo tar
}

system_name() {
    sed -n "s/^$1=//p" /etc/os-release | tr -d "\"'"
}

# Debian's releases that have packages. Derived systems have the libraries of none of these.
has_debs() {
    case "$(system_name VERSION_CODENAME)" in bookworm | trixie) ;; *) return 1 ;; esac
}

# Refuses what has no support: docs/project/support.md.
check_system() {
    kernel="$(uname -r)"
    ! is_older "${kernel%%[!0-9.]*}" 5.10.0 || fail "Tutti needs Linux 5.10 or later, and this kernel is $kernel" "use a newer system"
    case "$method" in
        deb) has_debs || fail "there are packages for Debian 12 and 13, and this is $(system_name PRETTY_NAME)" "leave out --method deb" ;;
        rpm)
            number="$(system_name VERSION_ID)"
            ! is_older "${number:-9}" 9 || fail "there are packages for Fedora, RHEL 9 and 10, and this is $(system_name PRETTY_NAME)" "use a newer system"
            ;;
    esac
}

# keep FILE: copies a file that is going to be changed, for `take_back`.
keep() {
    kept=$((kept + 1))
    [ ! -e "$1" ] || cp -p "$1" "$work/kept.$kept"
    printf '%s\n' "$1" >>"$work/kept"
}

# Brings back the files of the system as they were.
take_back() {
    [ -e "$work/kept" ] || return 0
    number=0
    while read -r file; do
        number=$((number + 1))
        if [ -e "$work/kept.$number" ]; then cp -p "$work/kept.$number" "$file"; else rm -f "$file"; fi
        say "Taken back: $file."
    done <"$work/kept"
}

# Runs at each end of the script, also by a signal.
leave() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    [ "$1" -eq 0 ] || take_back || true
    rm -rf "$work" ${new:+"$new" "$place/.current.$$"}
}

# manage COMMAND...: runs the package manager.
manage() {
    say "Running: $*"
    "$@" || fail "\`$*\` failed" "the reason is above"
}

# named VERSION: as packages of this kind have it.
named() {
    case "$method" in
        deb | rpm) printf '%s\n' "$1" | tr - '~' ;;
        apk) printf '%s\n' "$1" | sed -E 's/-([a-z]+)[.]?/_\1/' ;;
        tar) printf '%s\n' "$1" ;;
    esac
}

# The version that is installed, or nothing.
installed() {
    case "$method" in
        deb) dpkg-query -W -f '${db:Status-Status} ${Version}\n' tutti 2>/dev/null | sed -n 's/^installed \([^-]*\)-.*/\1/p' ;;
        rpm) rpm -q --qf '%{VERSION}\n' tutti 2>/dev/null | grep '^[0-9]' || true ;;
        apk) apk info -e -v tutti 2>/dev/null | sed -n 's/^tutti-\([0-9].*\)-r[0-9]*$/\1/p' ;;
        tar) readlink "$place/current" || true ;;
    esac
}

# Each package of Tutti that is installed, and the server: a host needs the server of its own version.
packages() {
    {
        echo tutti
        case "$method" in
            deb) dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'tutti-*' 2>/dev/null | sed -n 's/^installed //p' | grep -v -- '-dbgsym$' || true ;;
            rpm) rpm -qa --qf '%{NAME}\n' 'tutti-*' ;;
        esac
    } | sort -u
}

# put FILE: writes a file of the system, and says so.
put() {
    say "Writing $1."
    keep "$1"
    mkdir -p "$(dirname "$1")"
    cat >"$1"
    chmod 644 "$1"
}

install_deb() {
    fetch_checked tutti.asc
    put /etc/apt/keyrings/tutti.asc <"$work/tutti.asc"
    put /etc/apt/sources.list.d/tutti.sources <<END
Types: deb
URIs: $address/repository/apt
Suites: $(system_name VERSION_CODENAME)
Components: main
Signed-By: /etc/apt/keyrings/tutti.asc
END
    export DEBIAN_FRONTEND=noninteractive
    manage apt-get update -q
    # shellcheck disable=SC2046
    manage apt-get install -y -q --no-remove ${chosen:+--allow-downgrades} $(packages | sed "s/\$/=$(named "$version")-*/")
    say "Languages are packages of their own: apt search tutti-"
}

install_rpm() {
    fetch_checked tutti.asc
    put /etc/pki/rpm-gpg/RPM-GPG-KEY-tutti <"$work/tutti.asc"
    put /etc/yum.repos.d/tutti.repo <<END
[tutti]
name=Tutti
baseurl=$address/repository/rpm
gpgcheck=1
repo_gpgcheck=1
gpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-tutti
END
    # shellcheck disable=SC2046
    manage dnf install -y --refresh $(packages | sed "s/\$/-$(named "$version")/")
    say "Languages are packages of their own: dnf search tutti- (PHP, Perl and Ruby: in the container images)"
    [ -n "$old" ] || say "Start the server, now and with the system: systemctl enable --now tutti"
}

install_apk() {
    name="$(awk '$2 ~ /\.rsa\.pub$/ { print $2; exit }' "$work/SHA256SUMS")"
    fetch_checked "${name:-the key of the repository for apk}"
    put "/etc/apk/keys/$name" <"$work/$name"
    if ! grep -qxF "$address/repository/apk" /etc/apk/repositories; then
        say "Adding $address/repository/apk to /etc/apk/repositories."
        keep /etc/apk/repositories
        echo "$address/repository/apk" >>/etc/apk/repositories
    fi
    if [ -n "$chosen" ]; then
        manage apk add -U "tutti~$(named "$version")"
        say "\`apk upgrade\` keeps this version until you run: apk add tutti"
    else
        manage apk add -U -u "tutti>=$(named "$version")"
    fi
    say "Languages are packages of their own: apk search tutti- (PHP, Python, Perl and Ruby: in the container images)"
    [ -n "$old" ] || say "Start the server, now and with the system: rc-update add tutti && rc-service tutti start"
}

# starts PROGRAM: it is this version, and a server of it starts.
starts() {
    [ "$("$1" --version 2>"$work/said")" = "tutti version: $version" ] || return 1
    rm -rf "$work/run" && mkdir "$work/run"
    "$1" --no-daemon --control "unix:$work/run/control" --pid "$work/run/pid" --log "$work/run/log" --statedir "$work/run/state" --tmpdir "$work/run" >"$work/said" 2>&1 &
    server=$!
    tries=0
    until "$1" status --control "unix:$work/run/control" >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || return 1
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || { kill "$server" && return 1; }
        sleep 0.1
    done
    kill "$server" 2>/dev/null || return 1
    wait "$server" || true
    server=""
}

# Why it did not.
told() {
    cat "$work/said" "$work/run/log" 2>/dev/null | head -n 3
}

# The link is replaced by a rename: at each moment it leads to a version that is complete.
switch_to() {
    ln -s "$1" "$place/.current.$$"
    mv -T "$place/.current.$$" "$place/current"
}

# For root, the rest of what packages have: the user of controller and router, a unit for systemd and the rotation of the log. Each version brings its
# unit, which `systemctl edit` changes in a file of its own; the rotation may have been changed.
integrate() {
    id tutti >/dev/null 2>&1 || manage useradd --system --no-create-home --shell /usr/sbin/nologin tutti
    # The files are for this place alone.
    [ "$prefix" = /usr/local ] || return 0
    if [ -d /etc/logrotate.d ] && [ ! -e /etc/logrotate.d/tutti ]; then
        put /etc/logrotate.d/tutti <"$place/current/tutti.logrotate"
    fi
    if has systemctl; then
        put /usr/local/lib/systemd/system/tutti.service <"$place/current/tutti.service"
    fi
    # A container may have systemd's programs, and run without it.
    if has systemctl && [ -d /run/systemd/system ]; then
        manage systemctl daemon-reload
        start="systemctl enable --now tutti"
    else
        start="$start --log /var/log/tutti.log"
    fi
}

install_tar() {
    has getconf && libc="$(getconf GNU_LIBC_VERSION 2>/dev/null)" || libc=""
    case "$libc" in
        "glibc 2."*) [ "${libc#glibc 2.}" -ge 28 ] || fail "this system has $libc, and Tutti needs 2.28" "use the container image" ;;
        *) fail "this system's C library is not glibc, which the archive needs" "on Alpine, run this as root for its packages; or use the container image" ;;
    esac
    name="tutti-$version-linux-$(uname -m)"
    fetch_checked "$name.tar.gz"
    say "Unpacking $name.tar.gz into $place/$version."
    mkdir -p "$place" "$prefix/bin"
    new="$(mktemp -d "$place/.new.XXXXXX")"
    chmod 755 "$new"
    tar -xzf "$work/$name.tar.gz" -C "$new" --no-same-owner || fail "\`$name.tar.gz\` cannot be unpacked" "the reason is above"
    if ! starts "$new/$name/bin/tutti"; then
        fail "version $version does not start on this system, and nothing was changed: $(told)" "use the packages or the container image"
    fi
    if [ -e "$place/$version" ]; then
        # The same version once more: each file is replaced by a rename, so a server that runs finds a complete one at each moment.
        (
            cd "$new/$name"
            find . -type d -exec mkdir -p "$place/$version/{}" \; -exec chmod 755 "$place/$version/{}" \;
            find . ! -type d -exec mv -fT {} "$place/$version/{}" \;
        )
    else
        mv -T "$new/$name" "$place/$version"
    fi
    printf 'address=%s\nkey=%s\n' "$address" "$key" >"$place/origin"
    switch_to "$version"
    for program in tutti tuttid; do
        ln -sf "../lib/tutti/current/bin/$program" "$prefix/bin/$program"
    done
    if ! starts "$prefix/bin/tutti"; then
        if [ -n "$old" ] && [ "$old" != "$version" ]; then
            switch_to "$old"
            fail "version $version does not start at its place; $old is installed again: $(told)" "tell the maintainers"
        fi
        fail "version $version does not start at its place" "remove $place and $prefix/bin/tutti"
    fi
    say "Installed: $prefix/bin/tutti is version $version."
    start="$prefix/bin/tuttid"
    [ "$(id -u)" -ne 0 ] || integrate
    [ -n "$old" ] || say "Start the server: $start (PHP, Perl and Ruby: in the container images)"
    [ -z "$old" ] || [ "$old" = "$version" ] || say "A server that runs continues with $old until you run: $prefix/bin/tutti upgrade. Then you may remove $place/$old."
    case ":$PATH:" in
        *":$prefix/bin:"*) ;;
        *) say "Your PATH does not have $prefix/bin." ;;
    esac
}

main() {
    version="" method="" prefix="" dry=no update=no from="" own=""
    while [ $# -gt 0 ]; do
        case "$1" in
            --version | --method | --prefix | --from | --key) [ $# -ge 2 ] || fail "\`$1\` needs a value" "see --help" ;;
        esac
        case "$1" in
            --version) version="$2" && shift 2 ;;
            --method) method="$2" && shift 2 ;;
            --prefix) prefix="$2" && shift 2 ;;
            --from) from="$2" && shift 2 ;;
            --key) own="$2" && shift 2 ;;
            --dry-run) dry=yes && shift ;;
            --update) update=yes method=tar && shift ;;
            --help) usage && exit 0 ;;
            *) fail "unknown argument \`$1\`" "see --help" ;;
        esac
    done
    [ "$(uname -s)" = Linux ] || fail "Tutti runs on Linux, and this is $(uname -s)" "use the container image"
    [ -n "$method" ] || method="$(method_of_system)"
    case "$method" in
        tar) ;;
        deb | rpm | apk)
            [ "$(id -u)" -eq 0 ] || fail "only root installs packages" "run this as root, or with --method tar"
            [ -z "$prefix" ] || fail "packages have their own places, and not those of --prefix" "leave it out, or add --method tar"
            ;;
        *) fail "there is no method \`$method\`" "deb, rpm, apk or tar" ;;
    esac
    check_system
    if [ -z "$prefix" ]; then
        if [ "$(id -u)" -eq 0 ]; then prefix=/usr/local; else prefix="${HOME:?}/.local"; fi
    fi
    case "$prefix" in /*) ;; *) prefix="$PWD/$prefix" ;; esac
    place="$prefix/lib/tutti"
    if [ "$update" = yes ] && [ ! -L "$place/current" ]; then
        fail "there is no installation of the archive in $prefix" "install.sh makes one; packages are upgraded by the system"
    fi
    if [ "$update" = yes ] && [ -f "$place/origin" ]; then
        address="$(sed -n 's/^address=//p' "$place/origin")" key="$(sed -n 's/^key=//p' "$place/origin")"
    fi
    address="${from:-$address}" key="${own:-$key}"
    address="${address%/}"
    [ -n "$key" ] || fail "this copy of install.sh has no public key to check a signature with" "use the one of a release, or give --key"
    scheme="$(scheme_of "$address")"
    if [ "$method" = tar ] && { [ -e "$prefix/bin/tutti" ] || [ -L "$prefix/bin/tutti" ]; } && [ "$(readlink "$prefix/bin/tutti" || true)" != ../lib/tutti/current/bin/tutti ]; then
        fail "there is another program $prefix/bin/tutti" "remove it, or choose another --prefix"
    fi
    work="$(mktemp -d)" new="" server="" kept=0
    trap 'leave $?' EXIT
    # A shell ends by a signal without the above.
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    chosen="$version"
    [ -n "$version" ] || fetch_newest
    case "$version" in
        *[!0-9A-Za-z.-]* | .* | -* | '') fail "\`$version\` is no version" "give one with --version" ;;
    esac
    old="$(installed)"
    if [ "$update" = yes ] && [ "$old" = "$version" ]; then
        say "Version $version is the newest, and it is installed."
        return
    fi
    if [ -n "$old" ] && [ -z "$chosen" ] && is_older "$(named "$version")" "$old"; then
        fail "$address offers $version, which is older than $old" "to go back to it: --version $version"
    fi
    case "$method" in
        tar)
            say "Tutti $version from $address: the archive for $(uname -m), into $place, with links in $prefix/bin."
            [ "$(id -u)" -ne 0 ] || say "For root also the user tutti, and for the prefix /usr/local a unit for systemd and the rotation of the log."
            ;;
        *) say "Tutti $version from $address: its repository of packages ($method) is added to this system, and the package tutti installed." ;;
    esac
    [ "$dry" = no ] || return 0
    fetch_checksums
    "install_$method"
}

# Nothing runs before the whole script has arrived: half of this is no command.
{
    main "$@"
}
