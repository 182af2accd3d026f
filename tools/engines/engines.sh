#!/usr/bin/env bash
# What `make engines` runs: the contracts of the stores and of the limiter, a short proof in each form, and what fails over, on the
# engines of newer releases of Debian. Their packages are not installed but unpacked, each release's into a folder of its own, and
# run by that release's own loader and libraries. Tests start the first program of that name in PATH: so the folders in front of
# PATH say which engines they get, here as by hand:
#   PATH=/var/tmp/sendcode-engines-0/trixie/valkey:$PATH go test ./quota
# Arguments are releases, trixie (Postgres 17) and forky (18). One that cannot be had is skipped with a line that says so. Folders are
# kept for a week.
set -u
base=/var/tmp/sendcode-engines-$UID # not in a home: Postgres does not run as root, and must reach it
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
failed=0

# unpack fetches packages of a release with all that they need, and puts their files into the folder $root.
unpack() {
  local release=$1
  shift
  rm -rf "$root"
  mkdir -p "$root"/apt/{lists,archives}/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $release main" > "$root/apt/sources"
  touch "$root/apt/status" # nothing is installed, so everything is fetched
  local apt=(apt-get -qq -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o Dir::State="$root/apt"
    -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt" -o Dir::Etc::sourcelist="$root/apt/sources"
    -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null)
  "${apt[@]}" update && "${apt[@]}" install --yes --no-install-recommends --download-only "$@" || return
  for package in "$root"/apt/archives/*.deb; do dpkg-deb --extract "$package" "$root" || return; done
  rm -r "$root/apt"
}

# loaded makes $1 a script that runs the program $2 by the loader of $root.
loaded() {
  local libraries
  libraries=$(dirname "$(echo "$root"/usr/lib/*/libc.so.6)")
  mkdir -p "${1%/*}"
  printf '#!/bin/sh\nexec %s --library-path %s --argv0 "$0" %s "$@"\n' "$(echo "$libraries"/ld-linux*)" "$libraries" "$2" > "$1"
  chmod 755 "$1"
}

# have unpacks a release unless that is done, and makes its programs: Postgres's where they are, for they look for one another and
# for their files from there; each other engine's in a folder of its own, Valkey's by Redis's name.
have() {
  local release=$1 postgres=$2
  root=$base/$release
  [ -n "$(find "$root/ready" -mtime -7 2> /dev/null)" ] && return
  unpack "$release" "postgresql-$postgres" redis-server valkey-server pgbouncer || return
  for program in "$root/usr/lib/postgresql/$postgres"/bin/*; do
    mv "$program" "$program.program" && loaded "$program" "$program.program"
  done
  loaded "$root/redis/redis-server" "$root/usr/bin/redis-server"
  loaded "$root/valkey/redis-server" "$root/usr/bin/valkey-server"
  loaded "$root/pgbouncer/pgbouncer" "$root/usr/sbin/pgbouncer"
  touch "$root/ready"
}

# on runs go test with engines of $root, says which, and goes on where it fails.
on() {
  local PATH=$1:$PATH what=$2 said
  shift 2
  said=$(go test -count=1 -timeout=20m "$@" 2>&1) && said=passed || { failed=1 said="FAILED
$said"; }
  echo "$what: $*: $said"
}

# version prints what a program says about its version, without what follows.
version() { "$1/$2" --version 2>&1 | sed -nE '1s/^([A-Za-z]+)[^0-9]*([0-9.]+).*/\1 \2/p'; }

# try runs the tests on the engines of a release: on its Postgres, on each of its Redis and Valkey, and on both together.
try() {
  local release=$1 postgres=$2
  shift 2
  if ! have "$release" "$postgres"; then
    echo "$release: skipped: its packages cannot be had from $mirror"
    return
  fi
  local rows=$root/usr/lib/postgresql/$postgres/bin:$root/pgbouncer memory of_memory of_rows
  of_rows="$(version "${rows%:*}" postgres), $(version "$root/pgbouncer" pgbouncer)"
  on "$rows" "$of_rows" ./internal/store/...
  for memory in "$@"; do
    of_memory=$(version "$root/$memory" redis-server)
    on "$root/$memory" "$of_memory" ./quota/... ./internal/limit/...
    on "$root/$memory:$rows" "$of_memory, $of_rows" -tags=nightly ./internal/prove/e2e/outages
    on "$root/$memory:$rows" "$of_memory, $of_rows" -tags=nightly -run='^TestProve$|^TestMoreForms$' ./internal/prove/e2e/parts
  done
}

install -d -m 755 "$base" && [ -O "$base" ] || exit
command -v apt-get > /dev/null || { echo 'engines: skipped: apt-get is not installed'; exit; }
for release in "$@"; do
  case $release in
    trixie) try trixie 17 redis valkey ;;
    forky) try forky 18 redis valkey ;;
    *) echo "$release is not trixie or forky" >&2; exit 2 ;;
  esac
done
exit $failed
