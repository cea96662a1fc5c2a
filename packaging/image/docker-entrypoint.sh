#!/bin/bash
# The entry point of the images that replace NGINX Unit's. At the first start of `unitd`, with an empty state folder, it configures the server
# with the files in /docker-entrypoint.d, as the public documentation of those images describes: certificate bundles (*.pem), JavaScript
# modules (*.js), configurations (*.json), then scripts (*.sh). Any other command is executed as it is. The script is process 1 until it
# executes the server, so it handles the signals itself, and an unfinished first start is repeated from its beginning.
set -euo pipefail
shopt -s nullglob dotglob
folder=/docker-entrypoint.d
welcome=/usr/share/tutti/image/welcome.json
server='' script='' work=''

say() {
    printf '%s: %s\n' "$0" "$1" >&2
}

# Ends the container with a reason and a cure.
fail() {
    say "error: $1"
    [[ $# -lt 2 ]] || say "hint: $2"
    end 1
}

# Stops what runs, and ends with a status. The mark in the state folder stays, so that the next start begins again.
end() {
    trap '' TERM INT QUIT
    [[ -z "$script" ]] || kill -TERM "$script" 2>/dev/null || true
    if [[ -n "$server" ]]; then
        kill -INT "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    [[ -z "$work" ]] || rm -rf "$work"
    exit "$1"
}

# Reads the flags that say where the server writes.
read_flags() {
    state=/var/lib/unit control=/var/run/control.unit.sock pid=/var/run/unit.pid temporary="${TMPDIR:-/tmp}"
    local flag='' word
    for word; do
        case "$flag" in
            --statedir | --state) state="$word" ;;
            --control) control="$word" ;;
            --pid) pid="$word" ;;
            --tmpdir | --tmp) temporary="$word" ;;
        esac
        flag=''
        case "$word" in
            --statedir=* | --state=*) state="${word#*=}" ;;
            --control=*) control="${word#*=}" ;;
            --pid=*) pid="${word#*=}" ;;
            --tmpdir=* | --tmp=*) temporary="${word#*=}" ;;
            *) flag="$word" ;;
        esac
    done
    case "$control" in
        unix:@*) control='' ;;
        unix:*) control="${control#unix:}" ;;
        /*) ;;
        # Without a token, `unitd` serves its usual socket in place of a TCP port.
        *) control=/var/run/control.unit.sock ;;
    esac
}

# The folder, made if it is missing, must be one that this user may write to.
writable() {
    local place="$1" purpose="$2"
    [[ -d "$place" ]] || (umask 077 && mkdir -p "$place" 2>/dev/null) || true
    [[ -d "$place" && -w "$place" ]] && return
    fail "user $(id -u), group $(id -g) cannot write to ${place@Q}, which holds $purpose" \
        "mount a volume that this user owns or a tmpfs there (docker run --tmpfs $place), or run with group 0, which owns the folders of the image"
}

# Makes one path lead to the control socket, so that clients of NGINX Unit and of Tutti find it where they look.
link() {
    [[ -n "$control" && ! "$control" -ef "$1" && "$control" != "$1" && ! -S "$1" ]] || return 0
    { mkdir -p "${1%/*}" && ln -sfn "$control" "$1"; } 2>/dev/null || true
}

# Only one container may work on a first start: the mark is locked by its owner, and removed when all is done.
take_mark() {
    mark="$state/.docker-entrypoint"
    while true; do
        local found=("$state"/*)
        for index in "${!found[@]}"; do
            # A file system of its own has this folder.
            [[ "${found[index]}" != "$state/lost+found" ]] || unset "found[index]"
        done
        [[ ${#found[@]} -eq 0 || -e "$mark" ]] || return 1
        exec {lock}>>"$mark"
        flock --nonblock "$lock" || fail "another container configures a server in ${state@Q} now" "give each container a state folder of its own"
        # The owner before this one may have finished in between.
        [[ ! "$mark" -ef "/proc/self/fd/$lock" ]] || break
        exec {lock}>&-
    done
    if [[ ${#found[@]} -gt 0 ]]; then
        say "the first start did not finish: it begins again"
        find "$state" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name .docker-entrypoint -exec rm -rf {} +
    fi
}

# Sorts the files by their names into bundles, modules, configurations and scripts.
look_at_files() {
    bundles=() modules=() configurations=() scripts=()
    local path name LC_ALL=C
    for path in "$folder"/*; do
        name="${path##*/}"
        # The folders of a mounted ConfigMap.
        [[ "$name" != ..* ]] || continue
        if [[ ! -f "$path" ]]; then
            say "ignoring ${path@Q}: not a file"
            continue
        fi
        case "$name" in
            *.pem) bundles+=("$path") ;;
            *.js) modules+=("$path") ;;
            *.json) configurations+=("$path") ;;
            *.sh) scripts+=("$path") ;;
            *) say "ignoring ${path@Q}: only *.pem, *.js, *.json and *.sh are used" ;;
        esac
    done
    for path in "${bundles[@]}" "${modules[@]}" "${configurations[@]}" "${scripts[@]}"; do
        [[ -r "$path" ]] || fail "user $(id -u) cannot read ${path@Q}" "change its mode or owner, or that of the secret that is mounted there"
    done
    for path in "${scripts[@]}"; do
        [[ -x "$path" ]] || fail "${path@Q} is not executable" "chmod +x"
    done
    [[ ${#configurations[@]} -lt 2 ]] || say "warning: ${#configurations[@]} configurations: each replaces the one before, so ${configurations[-1]@Q} is used"
}

# Starts the server with the flags of the command, to be configured.
start_server() {
    # Scripts expect it where NGINX Unit has it.
    socket=/var/run/control.unit.sock
    [[ -w /var/run || -z "$control" ]] || socket="$control"
    work="$(mktemp -d)"
    "$@" --no-daemon --control "unix:$socket" --pid "$work/pid" --log stderr &
    server=$!
    until curl --silent --output /dev/null --unix-socket "$socket" http://localhost/config; do
        kill -0 "$server" 2>/dev/null || { server=''; fail "the server did not start; its log is above"; }
        sleep 0.1
    done
}

# Stores a file under its name without the extension: `store FILE PATH-IN-THE-API KIND`.
store() {
    local name="${1##*/}" encoded='' position byte answer LC_ALL=C
    name="${name%.*}"
    for ((position = 0; position < ${#name}; position++)); do
        printf -v byte '%d' "'${name:position:1}"
        printf -v byte '%%%02X' $((byte & 255))
        encoded+="$byte"
    done
    say "storing $3 ${1@Q}"
    answer="$(curl --silent --show-error --request PUT --data-binary "@$1" --unix-socket "$socket" --write-out '\n%{http_code}' "http://localhost/$2/$encoded" 2>&1)" || true
    [[ "${answer##*$'\n'}" == 200 ]] || fail "$3 ${1@Q} was refused: ${answer%$'\n'*}"
}

configure() {
    local path
    for path in "${bundles[@]}"; do store "$path" certificates "certificate bundle"; done
    for path in "${modules[@]}"; do store "$path" js_modules "JavaScript module"; done
    for path in "${configurations[@]}"; do
        say "applying configuration ${path@Q}"
        tutti config put --yes --control "unix:$socket" --file "$path" >&2 || fail "configuration ${path@Q} was refused"
    done
    for path in "${scripts[@]}"; do
        say "running ${path@Q}"
        "$path" &
        script=$!
        wait "$script" || fail "${path@Q} ended with status $?"
        script=''
    done
    # Like NGINX Unit's image, one that is not configured shows that it runs.
    local listeners
    listeners="$(curl --silent --fail --unix-socket "$socket" http://localhost/config/listeners)" || listeners='{}'
    if [[ "$listeners" == '{}' ]]; then
        tutti config put --yes --control "unix:$socket" --file "$welcome" >&2 || say "warning: the welcome page is not served"
    fi
}

case "${1:-}" in
    unitd | unitd-debug) ;;
    *) exec "$@" ;;
esac
for word; do
    case "$word" in
        --help | -h | --version | -V) exec "$@" ;;
    esac
done

trap 'end 143' TERM
trap 'end 130' INT
trap 'end 131' QUIT
read_flags "$@"
if [[ "$(id -u)" -eq 0 ]]; then
    # Group 0 may write to these for users without a name. Applications of root's server may have that group (`--group root`), and must not.
    chmod g-w /run /run/tutti /var/lib/unit "$folder" 2>/dev/null || true
fi
writable "$state" "the state: the configuration and certificates"
[[ -z "$control" ]] || writable "${control%/*}" "the control socket"
writable "${pid%/*}" "the pid file"
writable "$temporary" "temporary files"
if take_mark; then
    look_at_files
    start_server "$@"
    configure
    kill -QUIT "$server"
    wait "$server" || fail "the server failed when it was stopped after its configuration"
    server=''
    rm -rf "$work"
    rm -f "$mark"
    exec {lock}>&-
    say "the first start is configured"
else
    say "${state@Q} is not empty: $folder is not read"
fi
link /var/run/tutti/control.sock
link /var/run/control.unit.sock
exec "$@"
