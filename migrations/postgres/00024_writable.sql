-- +goose Up

-- A look whether rows can be written fills this table and empties it again: for that it needs new pages, as rows of sends do
-- (package audit, writable.go). Nothing reads it.
CREATE TABLE writable (
    filling text NOT NULL
);
ALTER TABLE writable ALTER COLUMN filling SET STORAGE PLAIN; -- neither compressed nor elsewhere
