-- +goose NO TRANSACTION
-- +goose Up

-- How often mail servers and carriers refused a recipient for good lately: the rule on failures is decided from it, in the
-- statement that writes the next send. Built beside the traffic; what an interrupted build left behind goes first.
DROP INDEX CONCURRENTLY IF EXISTS sends_rejected;
CREATE INDEX CONCURRENTLY sends_rejected ON sends (recipient, app, channel, finished_at) WHERE status = 'failed' AND reason = 'rejected';
