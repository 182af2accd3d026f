-- +goose Up
-- As in postgres/00002_held_suppressions.sql, which explains it.
ALTER TABLE suppressions ADD COLUMN server TEXT NOT NULL DEFAULT '';
ALTER TABLE suppressions ADD COLUMN words TEXT NOT NULL DEFAULT '';
ALTER TABLE suppressions ADD COLUMN held_until INTEGER;
CREATE INDEX suppressions_words ON suppressions (server, words, since) WHERE words <> '';
