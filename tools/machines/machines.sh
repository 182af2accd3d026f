#!/usr/bin/env bash
# What `make machines` runs: `make test` as on other machines, each time on a clean clone of the commit. Nothing is installed, but in the
# row bare-debian, whose root folder is made once a week. Arguments are rows of the table below; none: all of them; today: the one of the day.
# SUITE=./internal/http/page tests less. A row that this machine cannot stand in for is skipped with a line that says so. The output of
# each row stays in /var/tmp/sendcode-machines-*.
set -u
commit=$(git rev-parse --short=12 HEAD) || exit
top=$(git rev-parse --show-toplevel)
base=/var/tmp/sendcode-machines-$UID # not in a home, which another user may not enter
debian=bookworm mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
here=$PATH
failed=0

# Each row is a function that may set variables, and then calls tested, perhaps by another command.
rows=(chromium one-browser long-folder folder-with-a-blank checkout-with-a-blank no-home read-only-home another-user no-network
  no-ipv6 elsewhere busy bare-debian)

chromium() { without chromium-headless-shell chrome-headless-shell && tested; }
one-browser() { without firefox firefox-esr WebKitWebDriver Xvfb && tested; }
long-folder() { folder "$(printf '%0100d' 0)" && tested; }
folder-with-a-blank() { folder 'a folder' && tested; }
checkout-with-a-blank() { checkout "$work/a checkout" && tested; }
no-home() { tested env -u HOME; }
read-only-home() { modules && by_another_user && chmod 500 "$HOME" && tested "${as[@]}"; }
another-user() { modules && by_another_user && tested "${as[@]}"; }
elsewhere() { TZ=Asia/Kathmandu LANG=tr_TR.UTF-8 tested; }

no-network() {
  modules && rm -rf "$GOMODCACHE"/gotest.tools "$GOMODCACHE"/cache/download/gotest.tools &&
    GOPROXY=off tested "${alone[@]}" sh -c 'ip link set lo up && exec "$@"' sh
}

no-ipv6() {
  tested "${alone[@]}" sh -c 'ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && exec "$@"' sh
}

busy() {
  local pids=()
  for _ in $(seq 20); do (while :; do :; done) & pids+=($!); done
  tested
  local status=$?
  kill "${pids[@]}"
  wait "${pids[@]}" 2> /dev/null
  return $status
}

alone=(unshare --net)
[ "$UID" = 0 ] || alone+=(--map-root-user)

# bare-debian is a root folder with Debian's smallest system, make and Go, where make test installs the rest as root. What is compiled and
# what apt-get downloads stay for the next night. The processes see no others, and end with the row.
bare-debian() {
  local root=$base/debian mounts
  if [ -z "$(find "$root/ready" -mtime -7 2> /dev/null)" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=make "$debian" "$root" "$mirror" > "$log" 2>&1 || return
    cp /etc/resolv.conf /etc/hosts "$root/etc/" && touch "$root/ready" || return
  fi
  cp -a "$root" "$work/debian" && root=$work/debian
  mkdir -p "$root"/{usr/local/go,modules,clone} "$base"/{compiled-debian,archives/partial}
  mounts='mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/dev/shm" && mount -t tmpfs tmpfs "$1/tmp" &&
    mount --bind "$2" "$1/usr/local/go" && mount --bind "$3" "$1/modules" && mount --bind "$4" "$1/clone" && mkdir "$1/tmp/compiled" &&
    mount --bind "$5/compiled-debian" "$1/tmp/compiled" && mount --bind "$5/archives" "$1/var/cache/apt/archives" && exec chroot "$1" "${@:6}"'
  go mod download &&
    unshare --mount --pid --fork --kill-child bash -c "$mounts" bash "$root" "$(go env GOROOT)" "$(go env GOMODCACHE)/cache/download" "$clone" \
      "$base" env -i PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root GOPROXY=file:///modules GOSUMDB=off \
      GOCACHE=/tmp/compiled bash -c "cd /clone && time make build && time make test ${SUITE:+SUITE='$SUITE'}" > "$log" 2>&1
}

# without leaves programs out of PATH.
without() {
  local dir program
  mkdir "$work/programs"
  IFS=: read -ra dirs <<< "$here"
  for dir in "${dirs[@]}"; do
    for program in "$dir"/*; do [ ! -e "$program" ] || [ -e "$work/programs/${program##*/}" ] || ln -s "$program" "$work/programs/"; done
  done
  for program in "$@"; do rm -f "$work/programs/$program"; done
  PATH=$work/programs
}

# folder is where temporary files are.
folder() { mkdir "$work/$1" && export TMPDIR=$work/$1; }

# checkout moves the clone.
checkout() { mv "$clone" "$1" && clone=$1; }

# modules gives a row modules of its own, from those that are here.
modules() {
  local proxy
  proxy=file://$(go env GOMODCACHE)/cache/download
  export GOMODCACHE=$work/modules
  (cd "$clone" && GOFLAGS=-modcacherw GOPROXY=$proxy GOSUMDB=off go mod download)
}

# by_another_user makes the row another user's, for root. What is compiled stays for the next night.
by_another_user() {
  as=()
  export HOME=$work/home GOCACHE=$base/compiled
  mkdir "$HOME"
  [ "$UID" = 0 ] || return 0
  as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  mkdir -p "$GOCACHE"
  chown -R 65534:65534 "$clone" "$GOCACHE" "$HOME"
}

# tested runs make test, by the command that the arguments are.
tested() {
  (cd "$clone" && ENSURE=no CI='' "$@" make test ${SUITE:+SUITE="$SUITE"}) > "$log" 2>&1
}

install -d -m 755 "$base" && [ -O "$base" ] || exit
[ $# -gt 0 ] || set -- "${rows[@]}"
[ "$1" != today ] || set -- "${rows[$(date +%s) / 86400 % ${#rows[@]}]}"
for row in "$@"; do
  [[ " ${rows[*]} " == *" $row "* ]] || { echo "there is no row $row" >&2; exit 2; }
  case $row in
    no-network | no-ipv6) "${alone[@]}" true 2> /dev/null || { echo "$row: skipped: unshare --net is not allowed"; continue; } ;;
    bare-debian) [ "$UID" = 0 ] && command -v debootstrap > /dev/null || { echo "$row: skipped: it needs root and debootstrap"; continue; } ;;
    read-only-home) [ "$UID" != 0 ] || command -v setpriv > /dev/null || { echo "$row: skipped: setpriv is not installed"; continue; } ;;
  esac
  work=$(mktemp -d "$base/XXXXXX") log=$base/$row.log clone=$work/clone
  chmod 755 "$work" # root's Postgres is another user's process
  git clone -q --no-hardlinks "$top" "$clone" && git -C "$clone" checkout -q "$commit" || exit
  began=$SECONDS said=passed
  ("$row") || { failed=1 said="FAILED, see $log"; grep -E '^(=== )?(FAIL|--- FAIL|make: )' "$log" | head -20; }
  echo "$row: $said after $((SECONDS - began)) s: $(grep -E '^DONE|cannot be had' "$log" | tail -1)"
  chmod -R u+w "$work" && rm -rf "$work"
done
exit $failed
