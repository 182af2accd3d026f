-- +goose Up

-- As postgres/00002_failed_checks.sql.
CREATE INDEX verifications_tried ON verifications (recipient, app, channel, expires_at) WHERE attempts > 0;
