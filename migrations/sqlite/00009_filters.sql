-- +goose Up

-- Filters of the console for what is rare (package audit, list.go). Those by app, channel and purpose read on until they have a
-- page: a file of this size has no need of more.
CREATE INDEX sends_astray ON sends ((CASE WHEN status IN ('failed', 'unknown', 'refused') THEN status END), logged_at, id)
    WHERE CASE WHEN status IN ('failed', 'unknown', 'refused') THEN status END IS NOT NULL;
CREATE INDEX sends_blocked_by ON sends (blocked_by, logged_at, id) WHERE blocked_by <> '';
