#!/bin/sh
# Installs what kolo needs and this machine lacks (`make deps`): says first what and why, then does
# it with apt, as root or through sudo. Nothing is done, and nothing is said, when all is there.
#
#   config/deps.sh            install what is missing
#   config/deps.sh --build    the same, without what only tests need
#   config/deps.sh --list     only say what is missing
set -eu

list=$(dirname "$0")/packages.txt
cargo_toml=$(dirname "$0")/../Cargo.toml

# Debian's own cargo is older than kolo needs, so Rust comes from its own installer; people like to
# choose how. Asked first: nobody should wait for apt to learn this.
need_rust() {
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$cargo_toml" | head -n 1)
    PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
    if ! command -v cargo >/dev/null 2>&1; then
        fetch="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs"
        get_curl=
        if ! command -v curl >/dev/null 2>&1; then
            get_curl="${sudo:+$sudo }apt-get install -y curl && "
        fi
        echo "kolo is built with Rust $wanted or newer, and there is no cargo here. This gets it:"
        echo "    ${get_curl}$fetch | sh -s -- -y && . \"\$HOME/.cargo/env\""
        exit 1
    fi
    have=$(cargo --version | awk '{ print $2 }')
    oldest=$(printf '%s\n%s\n' "$wanted" "$have" | sort -V | head -n 1)
    if [ "$oldest" != "$wanted" ]; then
        echo "kolo is built with Rust $wanted or newer, and cargo here is $have. This renews it:"
        echo "    rustup update stable"
        exit 1
    fi
}

installed() {
    case $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) in
        *" installed") return 0 ;;
        *) return 1 ;;
    esac
}

# Prints "package reason..." for every line of the list of which no alternative is installed.
missing() {
    grep -v '^#' "$list" | while read -r debian ubuntu reason; do
        [ -n "$debian" ] || continue
        case $mode,$reason in --build,*tests:*) continue ;; esac
        name=$debian
        if [ "$system" = ubuntu ] && [ "$ubuntu" != = ]; then name=$ubuntu; fi
        found=
        for one in $(echo "$name" | tr '|' ' '); do
            if installed "$one"; then found=yes; fi
        done
        if [ -z "$found" ]; then printf '%-20s %s\n' "${name%%|*}" "$reason"; fi
    done
}

mode=${1:-}
sudo=
if [ "$(id -u)" != 0 ]; then sudo=sudo; fi
need_rust

if ! command -v apt-get >/dev/null 2>&1; then
    echo "There is no apt here, so nothing was installed or checked. kolo needs (names of Debian):"
    grep -v '^#' "$list" | awk '{ $2 = ""; print "    " $0 }'
    exit 0
fi

system=$(. /etc/os-release && echo "${ID:-debian}")
table=$(missing)
if [ -z "$table" ]; then exit 0; fi
packages=$(echo "$table" | awk '{ printf "%s%s", sep, $1; sep = " " }')
command="apt-get install -y --no-install-recommends $packages"

echo "kolo needs these packages, which are not installed:"
echo "$table" | sed 's/^/    /'
if [ "$mode" = --list ]; then exit 0; fi
if [ -n "$sudo" ] && ! command -v sudo >/dev/null 2>&1; then
    echo "There is no sudo here. As root, this installs them:"
    echo "    apt-get update && $command"
    exit 1
fi
echo "They are installed now with:"
echo "    ${sudo:+$sudo }$command"
# sudo clears the environment, so the setting travels on the command line.
$sudo env DEBIAN_FRONTEND=noninteractive apt-get update -qq </dev/null
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive $command -qq </dev/null
