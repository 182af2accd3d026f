#!/usr/bin/env bash
# What `make image` runs, as root on Debian: the Dockerfile is built by buildah, which needs no Docker, on a base of Debian's packages
# and of Go's toolchain, and the image is run: as its user, on a volume, twice, with a send in between. The base is kept for a week.
# Arguments are architectures, amd64 and arm64; another one than the machine's is compiled by the machine's Go and run by qemu.
# A tool that is missing is installed. What cannot be had is skipped with a line that says so.
set -meuo pipefail
kept=/var/tmp/sendcode-image
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
from=$(sed -nE 's/^FROM .*(golang:([0-9.]+)-([a-z]+)) AS build$/\1 \2 \3/p' Dockerfile)
read -r base go release <<< "$from"
own=$(dpkg --print-architecture)
[ "$UID" = 0 ] || { echo 'image: skipped: it needs root, for another root folder'; exit 0; }

# golang makes the image that the Dockerfile begins with, of a release of Debian and a version of Go.
golang() {
  local root=$kept/golang
  [ -n "$(find "$kept/ready-$go" -mtime -7 2> /dev/null)" ] && buildah inspect --type image "$base" > /dev/null 2>&1 && return
  rm -rf "$kept"/*
  mkdir -p "$kept"
  debootstrap --variant=minbase --include=ca-certificates "$release" "$root" "$mirror" > "$kept/log" 2>&1 || return
  cp -r "$(cd /tmp && GOTOOLCHAIN=go$go go env GOROOT)" "$root/usr/local/go" || return
  local new
  new=$(buildah from scratch)
  buildah copy -q "$new" "$root" / > /dev/null
  buildah config --env PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin --env GOTOOLCHAIN=local "$new"
  buildah commit -q --rm "$new" "docker.io/library/$base" > /dev/null
  rm -r "$root"
  touch "$kept/ready-$go"
}

# asks sends the service a request with the trial's key, which stands in what it printed, and prints the answer.
asks() {
  curl -fsS --max-time 60 -H "Authorization: Bearer $(grep -om1 'sk_[A-Za-z0-9_-]*' "$volume.log")" -H 'Content-Type: application/json' \
    "http://127.0.0.1:18080$1" "${@:2}"
}

# as runs the image's program as the image's user, and a foreign processor's by qemu.
as() {
  local by=()
  [ "$arch" = "$own" ] || by=(/qemu)
  buildah run --user 65532:65532 --env SENDCODE_ADDR=127.0.0.1:18080 --volume "$volume:/data" \
    --volume /usr/bin/qemu-aarch64-static:/qemu "$container" "${by[@]}" /sendcode "$@"
}

# start starts the service, as a job, and waits until it is ready.
start() {
  as serve > "$volume.log" 2>&1 &
  for _ in $(seq 600); do
    ! curl -fs -o /dev/null http://127.0.0.1:18080/readyz || break
    sleep 0.2
  done
  as health
}

# stop ends the service as Docker does: by SIGTERM.
stop() {
  pkill -TERM --pgroup "$(jobs -p)" --full '/sendcode serve$'
  wait
}

# tries runs the image: a send, and the same send after a second start on the same volume.
tries() {
  local id
  chown 65532:65532 "$volume"
  echo "$1: $(as version)"
  start &&
    id=$(asks /v1/verifications -d '{"channel": "email", "to": "mei@example.com"}' | sed -nE 's/^\{"id": *"([^"]*)".*/\1/p') &&
    stop && start && asks "/v1/verifications/$id" > /dev/null && stop &&
    echo "$1: ready, a send, a stop, a second start: the send is there"
}

{
  command -v buildah && command -v debootstrap && command -v curl && command -v qemu-aarch64-static ||
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah debootstrap curl qemu-user-static
} > /dev/null || { echo 'image: skipped: buildah, debootstrap, curl or qemu-user-static cannot be installed'; exit 0; }
golang || { echo "image: skipped: $base cannot be made: $(tail -1 "$kept/log")"; exit 0; }
go mod download # what is lent is complete, so the build needs no network of its own
failed=0
for arch in "${@:-$own}"; do
  # The machine's modules and compiled packages are lent, so that a night compiles what has changed.
  buildah bud -q --format docker --platform "linux/$arch" --build-arg BUILDPLATFORM="linux/$own" --build-arg VERSION="$(make -s --no-print-directory version)" --tag "sendcode:$arch" \
    --volume "$(go env GOMODCACHE):/root/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build" . > /dev/null
  container=$(buildah from --platform "linux/$arch" "sendcode:$arch") volume=$(mktemp -d)
  tries "$arch" || { failed=1; tail -5 "$volume.log"; stop || true; }
  buildah rm "$container" > /dev/null
  rm -r "$volume" "$volume.log"
done
exit $failed
