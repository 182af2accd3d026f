#!/usr/bin/env bash
# What `make adoption` rehearses on a throw-away copy of the commit, with placeholders for what the owner chooses
# (docs/decisions/0011-release.md): another module path by one command; a program outside that imports quota and quotahttp; the
# archive of a release, started on a bare Debian; the image in a registry of this machine, from which compose.yaml and the chart take
# it. What this machine cannot do is skipped with a line that says so.
set -u
module=example.com/owner/codes version=0.0.1
base=/var/tmp/sendcode-adoption-$UID
debian=bookworm mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
port=18083 registry_port=18084
failed=0
pids=()

say() { echo "adoption: $*"; }
# tried says whether a step passed. The output of one that failed is shown.
tried() {
  local name=$1
  shift
  if "$@" > "$work/log" 2>&1; then say "$name: passed"; else failed=1; say "$name: FAILED"; tail -20 "$work/log"; return 1; fi
}

# ended ends the processes that this script has started.
ended() {
  for pid in "${pids[@]}"; do kill "$pid" 2> /dev/null; wait "$pid" 2> /dev/null; done
  pids=()
}

renamed() {
  cd "$work/tree" && tools/adoption/module-path.sh "$module" && go build ./... &&
    go vet ./cmd/sendcode ./quota/... ./internal/prove/house && go test -vet=off -count=1 ./quota/quotahttp && go test -vet=off -count=1 -run '^TestImportsFollowTheTables$' ./internal/prove/house
}

# outside is a program of another module, whose test sends three requests through the middleware.
outside() {
  mkdir "$work/outside" && cd "$work/outside" && cat > guard_test.go << END
package outside

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"$module/quota"
	"$module/quota/quotahttp"
)

func TestThirdRequestIsRefused(t *testing.T) {
	guard, err := quotahttp.New(quotahttp.Config{
		Limiter: quota.NewMemory(time.Now),
		Policy:  quota.Policy{Name: "web", Rules: []quota.Rule{{Name: "visits", Scope: quota.IP, Limit: 2, Window: time.Hour}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	handler := guard.Take(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != want {
			t.Fatalf("status %d, want %d", w.Code, want)
		}
	}
}
END
  go mod init example.net/outside && go mod edit "-require=$module@v0.0.0" "-replace=$module=$work/tree" && go mod tidy && go test -count=1 ./...
}

archive() {
  cd "$work/tree" && go run ./tools/release -version=$version -systems="linux/$(go env GOARCH)" -out="$work/dist" &&
    cd "$work/dist" && sha256sum --check SHA256SUMS && mkdir "$work/archive" && tar xzf ./*.tar.gz -C "$work/archive" --strip-components=1
}

# asks sends the service at $port a request with the trial's key, which stands in what it printed.
asks() {
  curl -fsS --max-time 60 -H "Authorization: Bearer $(grep -om1 'sk_[A-Za-z0-9_-]*' "$work/said")" -H 'Content-Type: application/json' \
    "http://127.0.0.1:$port$1" "${@:2}"
}

# serves waits until the service at $port is ready, and sends a code.
serves() {
  for _ in $(seq 600); do
    ! curl -fs -o /dev/null "http://127.0.0.1:$port/readyz" || break
    kill -0 "${pids[-1]}" || break
    sleep 0.2
  done
  asks /v1/verifications -d '{"channel": "email", "to": "mei@example.com"}' || { cat "$work/said"; return 1; }
}

# on_debian starts the archive's program in a root folder that has Debian's smallest system alone.
on_debian() {
  local root=$base/debian
  if [ -z "$(find "$root/ready" -mtime -7 2> /dev/null)" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase "$debian" "$root" "$mirror" || return
    touch "$root/ready"
  fi
  rm -rf "$root/opt/sendcode" && cp -r "$work/archive" "$root/opt/sendcode" && chown -R 65534:65534 "$root/opt/sendcode" || return
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin SENDCODE_ADDR=127.0.0.1:$port SENDCODE_DRAIN=0s chroot --userspec=65534:65534 "$root" /bin/sh -c 'cd /opt/sendcode && exec ./sendcode' > "$work/said" 2>&1 &
  pids+=($!)
  serves
  local status=$?
  ended
  return $status
}

# pushed gives the image that make image has built the name that the owner would choose.
pushed() {
  printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: "127.0.0.1:%s"}\n' "$work/registry" $registry_port > "$work/registry.yaml"
  docker-registry serve "$work/registry.yaml" > "$work/registry.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 100); do ! curl -fs -o /dev/null "http://127.0.0.1:$registry_port/v2/" || break; sleep 0.1; done
  buildah push -q --tls-verify=false "sendcode:$arch" "docker://$image"
}

# taken takes the image by the name that a file of the tree has for it, and asks the program for its version.
taken() {
  local name container
  name=$(sed -nE "s|^ *image: *($image)( .*)?\$|\1|p" "$work/tree/$1" | head -1)
  [ -n "$name" ] || { echo "$1 does not name $image"; return 1; }
  container=$(buildah from -q --pull-always --tls-verify=false "$name") && buildah run --user 65532:65532 "$container" /sendcode version &&
    buildah rm "$container"
}

work=$(mktemp -d /var/tmp/sendcode-adoption-XXXXXX)
chmod 755 "$work"
mkdir -p "$base"
trap 'ended; rm -rf "$work"' EXIT
git clone -q --no-hardlinks . "$work/tree" || exit
tried 'another module path' renamed && tried 'a program outside' outside
tried 'the archive' archive
if [ "$UID" != 0 ] || ! command -v debootstrap > /dev/null; then
  say 'the archive on a bare Debian: skipped: it needs root and debootstrap'
elif [ -d "$work/archive" ]; then
  tried 'the archive on a bare Debian' on_debian
fi
arch=$(dpkg --print-architecture 2> /dev/null) image=127.0.0.1:$registry_port/owner/codes:$version
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
if [ "$UID" != 0 ] || ! command -v docker-registry > /dev/null || ! command -v buildah > /dev/null; then
  say 'the image: skipped: it needs root, buildah and docker-registry'
elif ! buildah inspect --type image "sendcode:$arch" > /dev/null 2>&1; then
  say 'the image: skipped: make image has built none here'
else
  sed -i "s|image: sendcode:local|image: $image|" "$work/tree"/compose*.yaml
  sed -i "s|^image: .*|image: $image|" "$work/tree/deploy/helm/values.yaml"
  if tried 'the image into a registry' pushed; then
    for file in compose.yaml compose.postgres.yaml deploy/helm/values.yaml; do tried "$file takes the image" taken "$file"; done
    if go run -C "$work/tree/tools/outside/manifest" . -root="$work/tree" -write > /dev/null 2>&1; then
      tried 'what the chart renders takes the image' taken deploy/kubernetes/postgres.yaml
    else
      say 'what the chart renders: skipped: the modules of tools/outside/manifest cannot be had'
    fi
  fi
fi
exit $failed
