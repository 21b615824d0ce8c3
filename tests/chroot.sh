#!/usr/bin/env bash
# A fresh machine in a directory: a Debian chroot that has nothing but make and the Rust toolchain
# of this machine. The repository is cloned into it, and `make demo` and `make test` run there.
#
#   tests/chroot.sh                  both (as root; needs debootstrap and about 8 GB of disk)
#   tests/chroot.sh deps build       other targets, in this order
#   KEEP=1 tests/chroot.sh          leave the directory, to look around in it
#   CHROOT_DIR=/somewhere  SUITE=bookworm  MIRROR=...   where, what, from where
#
# All mounts live in a private mount namespace, so that they vanish with the script however it ends.
# The mirror, the proxy and the certificates are those that this machine uses itself.
set -euo pipefail

repo=$(cd "$(dirname "$0")/.." && pwd)
suite=${SUITE:-bookworm}
root=${CHROOT_DIR:-}

die() { echo "chroot.sh: $*" >&2; exit 1; }

if [ -z "$root" ] || [ "${KOLO_CHROOT_INSIDE:-}" != "$root" ]; then
    [ "$(id -u)" = 0 ] || die "this needs root (mount, chroot): sudo $0 $*"
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
    # A name in /tmp that others can guess could lead root elsewhere.
    [ -n "$root" ] || { root=$(mktemp -d "${TMPDIR:-/tmp}/kolo-chroot.XXXXXX"); fresh=yes; }
    [ -n "${fresh:-}" ] || [ ! -e "$root" ] ||
        die "$root exists already; remove it or set CHROOT_DIR"
    mkdir -p "$root"
    chmod 755 "$root"
    status=0
    KOLO_CHROOT_INSIDE=$root CHROOT_DIR=$root \
        unshare --mount --propagation private --pid --fork --kill-child "$0" "$@" || status=$?
    if [ -n "${KEEP:-}" ]; then
        echo "left as it is: $root"
    else
        rm -rf --one-file-system "$root"
    fi
    exit $status
fi

# What this machine fetches its packages from: "URI release component", for this suite only.
sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        awk -v suite="$suite" '$2 == suite || index($2, suite "-") == 1' | sort -u
}

bootstrap() {
    local mirror
    mirror=${MIRROR:-$(sources | awk -v suite="$suite" '$2 == suite { print $1; exit }')}
    [ -n "$mirror" ] || die "apt here has no source for $suite: set MIRROR=URL"
    echo "== debootstrap $suite into $root"
    debootstrap --variant=minbase --include=ca-certificates,make "$suite" "$root" "$mirror" \
        >"$root/debootstrap.log" 2>&1 ||
        { tail -20 "$root/debootstrap.log"; die "debootstrap failed"; }
    rm -f "$root/debootstrap.log"
    if [ -n "$(sources)" ]; then sources | sed 's/^/deb /' >"$root/etc/apt/sources.list"; fi
}

# Proxies, certificates, cargo's and pip's own settings: how this machine reaches the outside.
reach_outside() {
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    local file proxy='Acquire::(http|https|Retries)'
    for file in $(grep -lE "$proxy" /etc/apt/apt.conf.d/* 2>/dev/null || true); do
        cp "$file" "$root/etc/apt/apt.conf.d/"
    done
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp -rL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
    chroot "$root" update-ca-certificates >/dev/null 2>&1
    for file in .cargo/config.toml .config/pip/pip.conf; do
        [ ! -f "$HOME/$file" ] || install -D -m 644 "$HOME/$file" "$root/root/$file"
    done
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
}

mounts() {
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t devtmpfs devtmpfs "$root/dev" 2>/dev/null || mount --bind /dev "$root/dev"
    mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/opt/rust"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount --bind "$(rustc --print sysroot)" "$root/opt/rust"
    mount -o remount,bind,ro "$root/opt/rust"
}

# Run a command in the chroot with a clean environment, as after a login on a new machine.
inside() {
    local keep=() name
    local proxy='(https?|ftp|all|no)_proxy' certificate='.*_CA_?(INFO|BUNDLE)|SSL_CERT_.*'
    for name in $(compgen -e | grep -iE "^($proxy|$certificate|CARGO_(HTTP|NET).*)\$" || true); do
        keep+=("$name=${!name}")
    done
    chroot "$root" /usr/bin/env -i ${keep[@]+"${keep[@]}"} \
        HOME=/root LANG=C.UTF-8 CI=true TERM=dumb \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/sh -c "$1" </dev/null
}

bootstrap
reach_outside
mounts
git clone --quiet --no-hardlinks "$repo" "$root/root/kolo"
[ $# -gt 0 ] || set -- demo test
for target in "$@"; do
    echo "== make $target"
    start=$SECONDS
    inside "cd /root/kolo && make $target"
    echo "== make $target: good, $((SECONDS - start)) s"
done
