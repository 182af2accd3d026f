// Package migrations has the database's schema as numbered SQL files, one directory for each kind
// of database, and applies them. The binary embeds them. There are no down migrations, so no tool
// can drop the tables.
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
