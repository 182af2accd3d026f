#!/usr/bin/env bash
# What `make outside` checks, which asks other machines: govulncheck, whose database is at vuln.go.dev, and Redocly's linter of
# docs/openapi.yaml from npm; a linter of the Dockerfile, systemd's of the units, the Helm chart and the schemas of Kubernetes and compose (manifest), and
# the middleware of quota under other routers (routers). A check that cannot have what it needs is skipped with a line that says so; one that
# finds something fails. Versions are exact, so that a check finds tomorrow what it finds today, but for what is new in the database.
set -u
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.8.0
redocly=@redocly/cli@2.77.0
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true npm_config_update_notifier=false NO_COLOR=1
export npm_config_fetch_retries=0 npm_config_fetch_timeout=20000 # ms: where npm cannot be reached, lint does not wait for it
failed=0

skip() { echo "$1: skipped: $2"; }
# found runs a check, and shows what it says if it fails.
found() {
  local name=$1 said
  shift
  said=$("$@" 2>&1) || { echo "$name: $said"; failed=1; return 1; }
}
# npm_run runs a program of a package of npm.
npm_run() { npx --yes --package="$1" -- "${@:2}"; }
# has fetches a package into npm's cache.
has() {
  command -v npx > /dev/null || { skip "$1" 'npm is not installed'; return 1; }
  timeout 120 npx --yes --package="$2" -- "$1" --version > /dev/null 2>&1 || { skip "$1" "$2 cannot be had"; return 1; }
}

# The database is asked first: without it govulncheck fails as it does with a finding.
database=${GOVULNDB:-https://vuln.go.dev}
if ! command -v curl > /dev/null; then
  skip govulncheck 'curl, which looks for its database, is not installed'
elif [[ $database == http* ]] && ! curl -fsS --max-time 10 -o /dev/null "${database%/}/index/db.json" 2> /dev/null; then
  skip govulncheck "its database at $database cannot be reached"
elif ! go run "$govulncheck" -version > /dev/null 2>&1; then
  skip govulncheck "$govulncheck cannot be had"
else
  found govulncheck go run "$govulncheck" ./...
fi
if has redocly "$redocly"; then
  found redocly npm_run "$redocly" redocly lint --extends=recommended-strict --skip-rule=info-license --skip-rule=operation-4xx-response docs/openapi.yaml
fi
lint=dockerfile-utils@0.16.3
if has dockerfile-utils "$lint"; then
  # It always exits with 0, and prints what it finds.
  said=$(npm_run "$lint" dockerfile-utils lint Dockerfile 2> /dev/null) || said='the linter failed'; [ -z "$said" ] || { echo "Dockerfile: $said"; failed=1; }
fi
if command -v systemd-analyze > /dev/null; then
  units=$(mktemp -d)
  for unit in deploy/systemd/*; do sed 's|/usr/local/bin/sendcode|/bin/true|' "$unit" > "$units/${unit##*/}"; done
  found systemd-analyze systemd-analyze verify --recursive-errors=no "$units"/*
  rm -r "$units"
else
  skip systemd-analyze 'it is not installed'
fi
if (cd tools/outside/manifest && go mod download) 2> /dev/null; then
  checker=$(mktemp)
  found manifest go build -C tools/outside/manifest -o "$checker" . &&
    found manifest "$checker"
  rm "$checker"
else
  skip manifest 'its modules cannot be had'
fi
if (cd tools/outside/routers && go mod download) 2> /dev/null; then
  found routers go test -C tools/outside/routers -count=1 .
else
  skip routers 'its modules cannot be had'
fi
exit $failed
