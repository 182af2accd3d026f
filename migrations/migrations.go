// Package migrations has the schema of the database as numbered SQL files, one directory for each
// kind of database, and applies them. They are part of the binary, and go forward only: a tool
// never drops the tables.
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
