-- +goose Up

-- As postgres/00014_receipts.sql.
ALTER TABLE sends ADD COLUMN receipt TEXT NOT NULL DEFAULT '' CHECK (receipt IN ('', 'delivered', 'undelivered'));
CREATE INDEX sends_receipt ON sends (receipt, logged_at, id) WHERE receipt <> '';
