package postgres

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"sendcode/internal/store"
	"sendcode/internal/store/sqldb"
	"sendcode/migrations"
)

// A table's owner can always grant itself rights on it. So the service may work as a role, while
// another user owns and migrates the tables. grantRights gives the role its rights after each
// migration; on audit_entries, only SELECT and INSERT.

// tableRights are the role's rights. On tables that are not listed, it has defaultRights.
var tableRights = map[string]string{
	"audit_entries":            "SELECT, INSERT",
	"audit_recipients":         "SELECT, INSERT, UPDATE (recipient, masked)",
	"key_checks":               "SELECT, INSERT",
	migrations.MigrationsTable: "SELECT",
	"schema_fingerprints":      "SELECT",
	"write_probe":              "INSERT, DELETE",
}

// ownerFunctions run with the owner's rights (migrations/postgres/00001_schema.sql), and the role
// may call them.
var ownerFunctions = []string{"sendcode_make_partitions()", "sendcode_drop_partition(timestamptz)"}

// ownTablesSQL selects the current schema and its tables that the migrating user owns, without
// partitions: access through the parent needs no rights on them.
const ownTablesSQL = `
SELECT current_schema(), ARRAY(
    SELECT c.relname::text FROM pg_catalog.pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND pg_has_role(c.relowner, 'USAGE') ORDER BY c.relname)`

const defaultRights = "SELECT, INSERT, UPDATE, DELETE"

// sendRights are rights that sending and checking codes needs. A Ping checks only these: a replica
// must answer requests even if a job, such as the retention, lacks a right. A start and the doctor
// check all rights.
var sendRights = map[string]string{
	"app_events":       "INSERT",
	"carrier_holds":    "SELECT",
	"failures":         "SELECT, INSERT",
	"idempotency_keys": "SELECT, INSERT, UPDATE, DELETE",
	"minute_index":     "INSERT",
	"outbox":           "SELECT, INSERT, UPDATE, DELETE",
	"refunds":          "SELECT, INSERT, UPDATE, DELETE",
	"sends":            "SELECT, INSERT, UPDATE",
	"suppressions":     "SELECT, INSERT",
	"verifications":    "SELECT, INSERT, UPDATE",
}

// serviceRights returns the rights that the service needs on all its tables.
func serviceRights() map[string]string {
	all := map[string]string{}
	for _, table := range sqldb.TableNames() {
		all[table] = strings.ReplaceAll(cmp.Or(tableRights[table], defaultRights), " (recipient, masked)", "")
	}
	return all
}

// missingRightsSQL selects one text: up to four of these rights that the login lacks, up to four of
// the tables whose row level security may hide rows from it, and what to do. It selects NULL if
// there are none. A policy hides nothing only if its conditions are the constant true. Missing
// tables are ignored here, because checkSchema finds them.
func missingRightsSQL(rights map[string]string) string {
	var needed []string
	for _, table := range slices.Sorted(maps.Keys(rights)) {
		for right := range strings.SplitSeq(rights[table], ", ") {
			needed = append(needed, "('"+table+"', '"+right+"')")
		}
	}
	return `
SELECT nullif(concat_ws('; ',
  current_user || ' may not ' || array_to_string((array_agg(right_on) FILTER (WHERE NOT has))[1:4], ', ')
    || ': run sendcode migrate as the tables'' owner, with SENDCODE_DATABASE_ROLE',
  'row level security hides rows of ' || array_to_string((array_agg(DISTINCT t) FILTER (WHERE hidden))[1:4], ', ')
    || ' from ' || current_user || ': run ALTER ROLE ' || quote_ident(current_user) || ' BYPASSRLS as a superuser, or for each table, as for '
    || min(t) FILTER (WHERE hidden) || ', ALTER TABLE ' || min(t) FILTER (WHERE hidden) || ' DISABLE ROW LEVEL SECURITY'), '')
FROM (SELECT n.t, n.r || ' ' || n.t AS right_on, CASE n.r WHEN 'DELETE' THEN has_table_privilege(c.oid, n.r)
        ELSE has_any_column_privilege(c.oid, n.r) END AS has,
      row_security_active(c.oid) AND (NOT coalesce(bool_or(policy.polpermissive AND policy.everything), false)
        OR coalesce(bool_or(NOT policy.polpermissive AND NOT policy.everything), false)) AS hidden
      FROM (VALUES ` + strings.Join(needed, ", ") + `) AS n (t, r) JOIN pg_catalog.pg_class c ON c.oid = to_regclass(n.t)
      LEFT JOIN LATERAL (SELECT p.polpermissive, coalesce(pg_get_expr(p.polqual, p.polrelid), 'true') = 'true'
          AND coalesce(pg_get_expr(p.polwithcheck, p.polrelid), 'true') = 'true' AS everything FROM pg_catalog.pg_policy p
        WHERE p.polrelid = c.oid AND p.polcmd IN ('*', CASE n.r WHEN 'SELECT' THEN 'r' WHEN 'INSERT' THEN 'a'
          WHEN 'UPDATE' THEN 'w' ELSE 'd' END) AND EXISTS (SELECT FROM unnest(p.polroles) role
            WHERE role = 0 OR pg_has_role(role, 'MEMBER'))) AS policy ON true
      GROUP BY c.oid, n.t, n.r) AS one`
}

var missingServiceRightsSQL, missingSendRightsSQL = missingRightsSQL(serviceRights()), missingRightsSQL(sendRights)

// checkRights runs a statement of missingRightsSQL. It fails with store.ErrNoPermission if that
// selects a text.
func (db *DB) checkRights(ctx context.Context, statement string) error {
	var missing *string
	err := db.readOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, statement).Scan(&missing)
	})
	if err == nil && missing != nil {
		err = fmt.Errorf("%w: %s", store.ErrNoPermission, *missing)
	}
	return err
}

func logsInAs(ctx context.Context, db *sql.DB, role string) (isRole bool, err error) {
	if role == "" {
		return false, nil
	}
	err = db.QueryRowContext(ctx, `SELECT session_user = @role`, pgx.NamedArgs{"role": role}).Scan(&isRole)
	return isRole, err
}

// grantRights gives the role its rights on the current schema's tables and functions, and revokes
// those of PUBLIC on the tables, in one transaction. Without a role it does nothing.
func grantRights(ctx context.Context, db *sql.DB, role string) error {
	if role == "" {
		return nil
	}
	if err := ensureRole(ctx, db, role); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var schema string
	var tables []string
	if err := tx.QueryRowContext(ctx, ownTablesSQL).Scan(&schema, pgtype.NewMap().SQLScanner(&tables)); err != nil {
		return err
	}
	to := pgx.Identifier{role}.Sanitize()
	statements := []string{"GRANT USAGE ON SCHEMA " + pgx.Identifier{schema}.Sanitize() + " TO " + to}
	for _, table := range tables {
		name, rights := pgx.Identifier{schema, table}.Sanitize(), cmp.Or(tableRights[table], defaultRights)
		statements = append(statements, "REVOKE ALL ON "+name+" FROM PUBLIC", "REVOKE ALL ON "+name+" FROM "+to,
			"GRANT "+rights+" ON "+name+" TO "+to)
	}
	for _, function := range ownerFunctions {
		statements = append(statements,
			"GRANT EXECUTE ON FUNCTION "+pgx.Identifier{schema}.Sanitize()+"."+function+" TO "+to)
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("store: rights of the role %s: %w", role, err)
		}
	}
	return tx.Commit()
}

// ensureRole creates the role if it is missing, and tries to make the current user a member, so
// that a service with the same URL can switch to it.
func ensureRole(ctx context.Context, db *sql.DB, role string) error {
	var exists, member bool
	err := db.QueryRowContext(ctx, `SELECT count(*) > 0, coalesce(bool_and(pg_has_role(oid, 'MEMBER')), false) FROM pg_catalog.pg_roles
  WHERE rolname = @role`, pgx.NamedArgs{"role": role}).Scan(&exists, &member)
	if err != nil {
		return err
	}
	name := pgx.Identifier{role}.Sanitize()
	if !exists {
		if _, err := db.ExecContext(ctx, "CREATE ROLE "+name+" NOLOGIN"); err != nil {
			return fmt.Errorf(
				"store: the role %s is missing, and this login may not create it; ask an administrator of the database to do so: %w", role, err)
		}
	}
	if !member {
		// If the user isn't allowed to, the service needs a URL that logs in as the role, as its
		// error at start says.
		_, _ = db.ExecContext(ctx, "GRANT "+name+" TO CURRENT_USER")
	}
	return nil
}

// AuditWeakness returns why the service can change or delete audit entries; "" if it can only add
// them.
func (db *DB) AuditWeakness(ctx context.Context) (why string, err error) {
	var granted []string
	var owner bool
	err = db.readOnPool(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, `
SELECT pg_has_role(session_user, c.relowner, 'MEMBER'),
       ARRAY(SELECT r FROM unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS r WHERE has_table_privilege(c.oid, r))
FROM pg_catalog.pg_class c WHERE c.oid = 'audit_entries'::regclass`).Scan(&owner, &granted)
	})
	switch {
	case err != nil:
		return "", err
	case len(granted) > 0:
		return "the service works as a role that may " + strings.Join(granted, ", ") +
				" the audit entries; only a trigger stands before it",
			nil
	case owner:
		return "the service's password is that of the owner, who can grant itself any right", nil
	}
	return "", nil
}

var errMayNotMigrate = errors.New(
	"store: the URL logs in as the role that the service works as, which may not migrate; migrate as the " +
		"tables' owner")

// CheckMayMigrate fails if the URL logs in as the service's role, which must not migrate.
func CheckMayMigrate(url, role string) error {
	config, err := parseURL(url)
	if err != nil {
		return err
	}
	if role != "" && config.ConnConfig.User == role {
		return errMayNotMigrate
	}
	return nil
}
