-- +goose Up

-- As postgres/00005_rejected.sql.
CREATE INDEX sends_rejected ON sends (recipient, app, channel, finished_at) WHERE status = 'failed' AND reason = 'rejected';
