#!/usr/bin/env bash
# What `make ways` runs: the first steps of three readers, each on an empty Debian that boots by itself, by the blocks of one page and
# nothing else. The script is the reader: it types the blocks in their order, and writes what earlier commands printed (a key, an ID, a
# code, a domain) where a block has a placeholder. A command that fails ends the way. Each way has an upper bound in minutes; packages are
# downloaded before the clock starts, since the machines have no network. Arguments are names of ways; none: all of them.
# It needs root, debootstrap and systemd-nspawn, for front-end also Chromium, and skips a way otherwise. ARCHIVE=file.tar.gz is an archive
# for Linux that was made before. KEEP=1 lets the machine of a failed way run, so that you can look at it.
set -u
base=/var/tmp/sendcode-ways-$UID
debian=bookworm mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
top=$(git rev-parse --show-toplevel) || exit
ways=(back-end front-end operator)
minutes() { case $1 in back-end) echo 5 ;; front-end) echo 10 ;; operator) echo 45 ;; esac; }

# --- What a reader does -------------------------------------------------------------------------

# back-end is the author of a back end: from the archive to the first code that was checked.
back-end() {
  page=docs/quickstart.md
  types service "$(block 'Start the service' 1 | sed 's/^make run$/.\/sendcode/')" & # as the page says for an archive
  local key id code
  key=$(printed service 'API key +(sk_[A-Za-z0-9_-]+)') || return
  types shell "$(block 'Start the service' 2 | sed "s/sk_…/$key/")" || return
  types shell "$(block 'Send a code, and check it' 1)" || return
  id=$(printed shell '"id":"([a-z0-9]+)"') || return
  types shell "$(block 'Testing' 1)" || return
  code=$(printed shell '^"code":"([0-9]+)"') || return
  types shell "$(block 'Send a code, and check it' 3 | sed "s/verifications\/[a-z0-9]*\/check/verifications\/$id\/check/; s/367944/$code/")" || return
  printed shell '("status":"approved","valid":true)'
}

# front-end is the author of a page: from the archive to a form that posts the proof.
front-end() {
  page=docs/widget.md
  types service ./sendcode & # step 1
  local key secret
  key=$(printed service 'public-key="(pk_[A-Za-z0-9_-]+)') || return
  secret=$(printed service 'API key +(sk_[A-Za-z0-9_-]+)') || return
  types shell 'mkdir site && cd site' || return
  { block 'Put it into your page' 1; block 'Put it into your page' 2; } |
    sed "s/pk_your_public_key/$key/; s|https://codes.example|http://127.0.0.1:8080|" |
    sed '/<send-code .*purpose=/d' > "$root/root/sendcode/site/index.html" # of the two elements, the one in the form
  types pages 'cd site && exec python3 -m http.server 3000' & # step 3
  nsenter --target "$init" --net "$work/form" http://localhost:3000/ http://127.0.0.1:8080 "$secret" ana@example.com
}

# operator runs the service: from an empty machine to a code that a person got by Postfix, behind Caddy, with one replica stopped.
operator() {
  page=docs/operations.md
  # The world: a domain that leads to this machine, and people with a mailbox here. Caddy's own authority stands for a public one.
  types shell 'echo 127.0.0.1 codes.example shop.example >> /etc/hosts; echo shop.example > /etc/mailname; useradd --create-home you' || return
  local n code id
  for n in 1 2 3 4 5 6 7; do types shell "$(block 'Postgres and Redis' $n)" || return; done
  types shell "$internal" || return
  for n in 8 9; do types shell "$(block 'Postgres and Redis' $n)" || return; done
  id=$(printed shell '"id":"([a-z0-9]+)"') || return
  types shell 'until grep "^Subject: [0-9]" /var/mail/you; do sleep 0.5; done' || return
  code=$(printed shell 'Subject: ([0-9]{3} ?[0-9]{3})') || return
  types shell "systemctl stop sendcode@8080; sleep 2
    curl --fail-with-body -sS https://codes.example/v1/verifications/$id/check -H \"Authorization: Bearer \$SENDCODE_API_KEY\" --json '{\"code\":\"$code\"}'" || return
  printed shell '("status":"approved","valid":true)'
}

# internal makes Caddy's own authority a trusted one.
internal='sed -i "s/^codes.example {/&\n\ttls internal/" /etc/caddy/Caddyfile; systemctl reload caddy;
  until [ -e /var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt ]; do sleep 0.5; done; cp /var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt /usr/local/share/ca-certificates/caddy.crt; update-ca-certificates'

# --- The reader's hands -------------------------------------------------------------------------

# block prints the n-th fenced block under a heading of the page, without its indentation.
block() {
  awk -v heading="$1" -v n="$2" '
    !within && /^#+ / { title = $0; sub(/^#+ /, "", title); under = title == heading; if (under) seen = 0; next }
    !under { if (/^ *```/) within = !within; next }
    /^ *```/ { if (!within) { indent = match($0, /`/) - 1; seen++ } else if (seen == n) found = 1; within = !within; next }
    within && seen == n { print substr($0, indent + 1) }
    END { exit !found }' "$top/$page" || { echo "ways: $page has no block $2 under $1" >&2; return 1; }
}

# types runs commands in a terminal of the machine, whose earlier commands set its variables, and fails if one of them does.
types() {
  local terminal=$1 commands=$2
  [ -n "$commands" ] || return
  printf '%s\n' "$commands" | sed "s/^/[$terminal] \$ /" >> "$work/log"
  : > "$work/$terminal"
  printf 'set -e\ncd /root/sendcode\n[ ! -e /root/.%s ] || . /root/.%s\n%s\nset +e; export -p > /root/.%s\n' \
    "$terminal" "$terminal" "$commands" "$terminal" > "$root/root/.typed-$terminal"
  nsenter --target "$init" --mount --uts --ipc --net --pid -- env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash "/root/.typed-$terminal" > "$work/$terminal" 2>&1 < /dev/null
  local status=$?
  cat "$work/$terminal" >> "$work/log"
  [ $status = 0 ] || echo "ways: failed with status $status: $commands" >> "$work/log"
  return $status
}

# printed waits until a terminal has printed what the pattern matches, and prints its group.
printed() {
  local found
  for _ in $(seq 300); do
    found=$(sed 's/\x1b\[[0-9;]*m//g' "$work/$1" 2> /dev/null | grep -oE -m1 -- "$2" | sed -nE "s%.*$2.*%\1%p" | tail -1)
    [ -z "$found" ] || { echo "$found"; return; }
    sleep 0.2
  done
  echo "ways: the terminal $1 did not print $2" >> "$work/log"
  return 1
}

# --- The machine --------------------------------------------------------------------------------

# made makes the empty Debian once a week: its smallest system with systemd, and the packages in apt's cache.
made() {
  root=$base/debian
  [ -z "$(find "$root/ready" -mtime -7 2> /dev/null)" ] || return 0
  rm -rf "$root"
  debootstrap --variant=minbase --include=systemd-sysv,dbus,ca-certificates,curl,python3 "$debian" "$root" "$mirror" &&
    cp /etc/resolv.conf "$root/etc/" && echo 'APT::Keep-Downloaded-Packages "true";' > "$root/etc/apt/apt.conf.d/99keep" &&
    chroot "$root" apt-get update &&
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install --yes --download-only postgresql redis-server postfix caddy openssl &&
    touch "$root/ready"
}

# boots boots a copy in a network of its own, with the archive unpacked in root's home. init is its first process.
boots() {
  cp -a "$base/debian" "$work/debian" && root=$work/debian && mkdir "$root/root/sendcode" &&
    tar -xzf "$ARCHIVE" --strip-components=1 -C "$root/root/sendcode" || return
  SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=$([ -e /sys/fs/cgroup/cgroup.controllers ] && echo 1 || echo 0) systemd-nspawn --quiet --directory="$root" \
    --boot --register=no --keep-unit --private-network --resolv-conf=off --link-journal=no --machine=shop --console=pipe > "$work/boot" 2>&1 < /dev/null &
  container=$!
  local began=$SECONDS
  while [ $((SECONDS - began)) -lt 300 ] && kill -0 "$container" 2> /dev/null; do
    init=$(pgrep -P "$container" | head -1)
    if [ -n "$init" ] && nsenter --target "$init" --mount --pid -- systemctl is-system-running 2> /dev/null | grep -qE 'running|degraded'; then
      printf '127.0.0.1 localhost shop\n' > "$root/etc/hosts"
      return
    fi
    sleep 0.2
  done
  { echo "ways: the machine did not boot within 5 minutes; its console:"; cat "$work/boot"; } >> "$work/log"
  return 1
}

# ended ends the machine.
ended() {
  [ -z "${container-}" ] || { kill -KILL "${init:-$container}" 2> /dev/null; wait "$container" 2> /dev/null; }
  container=
}

work='' container='' failed=0
trap 'ended; [ -z "$work" ] || rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- "${ways[@]}"
for way in "$@"; do
  [[ " ${ways[*]} " == *" $way "* ]] || { echo "there is no way $way" >&2; exit 2; }
done
[ "$UID" = 0 ] && command -v debootstrap > /dev/null && command -v systemd-nspawn > /dev/null || { echo "ways: skipped: they need root, debootstrap and systemd-nspawn"; exit 0; }
install -d -m 755 "$base" && made > "$base/debian.log" 2>&1 || { echo "ways: FAILED: no Debian, see $base/debian.log"; exit 1; }
if [ -z "${ARCHIVE-}" ]; then
  rm -rf "$base/dist" && (cd "$top" && go run ./tools/release -systems "linux/$(go env GOARCH)" -out "$base/dist" -version 0.0.1) || exit
  ARCHIVE=$(echo "$base"/dist/*.tar.gz)
fi
for way in "$@"; do
  if [ "$way" = front-end ] && ! command -v chromium chromium-headless-shell > /dev/null; then
    echo "$way: skipped: there is no Chromium"
    continue
  fi
  work=$(mktemp -d "$base/XXXXXX")
  [ "$way" != front-end ] || (cd "$top" && go build -o "$work/form" ./tools/ways/form) || exit
  said="FAILED, see $base/$way.log" began=$SECONDS
  if boots; then
    began=$SECONDS
    if "$way" >> "$work/log" 2>&1; then
      said=passed
      [ $((SECONDS - began)) -le $(($(minutes "$way") * 60)) ] || said="FAILED: longer than $(minutes "$way") minutes"
    fi
  fi
  mv "$work/log" "$base/$way.log"
  echo "$way: $said after $((SECONDS - began)) s"
  if [ "$said" != passed ]; then
    failed=1
    [ -z "${KEEP-}" ] || { echo "nsenter --target $init --mount --uts --ipc --net --pid -- bash; then kill -KILL $init and remove $work"; container='' work=''; continue; }
  fi
  ended
  rm -rf "$work" && work=
done
exit $failed
