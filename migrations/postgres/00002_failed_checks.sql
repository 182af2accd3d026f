-- +goose NO TRANSACTION
-- +goose Up

-- How often one recipient's codes were tried lately, over all its verifications: the bound on failed checks is decided
-- from it. Built beside the traffic; what an interrupted build left behind goes first. Verifications are kept for a day
-- after they expire at least, since they are what the bound counts.
DROP INDEX CONCURRENTLY IF EXISTS verifications_tried;
CREATE INDEX CONCURRENTLY verifications_tried ON verifications (recipient, app, channel, expires_at) WHERE attempts > 0;
