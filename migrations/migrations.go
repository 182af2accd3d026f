// Package migrations holds the schema of the log as numbered SQL files, one directory for each database. They are part of
// the binary: packages postgres and sqlite apply them, forward only, for a log is never dropped by a tool.
package migrations

import "embed"

// Postgres has its files under postgres/.
//
//go:embed postgres/*.sql
var Postgres embed.FS

// SQLite has its files under sqlite/.
//
//go:embed sqlite/*.sql
var SQLite embed.FS
