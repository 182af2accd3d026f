-- +goose Up

-- The rules in mode observe that would have refused a send, by commas; '' is none.
ALTER TABLE sends ADD COLUMN observed text NOT NULL DEFAULT '';
