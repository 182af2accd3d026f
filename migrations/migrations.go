// Package migrations has the schema of the database as numbered SQL files, and applies these files.
// It has a directory for each kind of database. The binary embeds the files. There are no down
// migrations, so no tool can drop the tables.
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
