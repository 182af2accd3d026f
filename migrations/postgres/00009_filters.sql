-- +goose NO TRANSACTION
-- +goose Up

-- Each filter of the console, also for what is rare (package audit, list.go). One index serves app, channel, purpose and any
-- two of them; what was sent is in none of its own, for most rows are. Two are on expressions, so that no other query can be
-- planned with them: the second gate has its own. Built beside the traffic; what an interrupted build left behind goes first.
DROP INDEX CONCURRENTLY IF EXISTS sends_kind;
CREATE INDEX CONCURRENTLY sends_kind ON sends (((app || E'\x1f' || channel || E'\x1f' || purpose) COLLATE "C"), logged_at, id);
DROP INDEX CONCURRENTLY IF EXISTS sends_astray;
CREATE INDEX CONCURRENTLY sends_astray ON sends ((CASE WHEN status IN ('failed', 'unknown', 'refused') THEN status END), logged_at, id)
    WHERE CASE WHEN status IN ('failed', 'unknown', 'refused') THEN status END IS NOT NULL;
DROP INDEX CONCURRENTLY IF EXISTS sends_blocked_by;
CREATE INDEX CONCURRENTLY sends_blocked_by ON sends (blocked_by, logged_at, id) WHERE blocked_by <> '';
