// Outside runs the part of `make lint` that asks other machines: govulncheck, whose database is at vuln.go.dev, and two
// readers of docs/openapi.yaml from npm, Redocly's linter and openapi-typescript. A check that cannot have what it needs
// is skipped with one line that says so; a check that finds something fails.
package main

import (
	"context"
	"net/http"
	"os"
	"time"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	w := world{out: os.Stdout, client: &http.Client{Timeout: 10 * time.Second}, run: run}
	if !w.checks(ctx) {
		os.Exit(1)
	}
}
