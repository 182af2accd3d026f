-- +goose NO TRANSACTION
-- +goose Up

-- What a carrier said afterwards became of a text message. Beside the status and not in it: a receipt may come before the
-- outcome of the attempt that it is about, and neither may undo the other (package audit, receipts.go).
ALTER TABLE sends ADD COLUMN IF NOT EXISTS receipt text NOT NULL DEFAULT '' CHECK (receipt IN ('', 'delivered', 'undelivered'));
DROP INDEX CONCURRENTLY IF EXISTS sends_receipt;
CREATE INDEX CONCURRENTLY sends_receipt ON sends (receipt, logged_at, id) WHERE receipt <> '';
