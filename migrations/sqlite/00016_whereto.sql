-- +goose Up

-- As postgres/00016_whereto.sql; the other filters read on until they have a page: a file of this size has no need of more.
ALTER TABLE sends ADD COLUMN country TEXT NOT NULL DEFAULT '';
ALTER TABLE sends ADD COLUMN prefix TEXT NOT NULL DEFAULT '';
CREATE INDEX sends_country ON sends (country, logged_at, id) WHERE country <> '';
