-- +goose Up
-- Which human check was passed for a send: 'work', or the vendor; '': none was needed.
ALTER TABLE sends ADD COLUMN human_check text NOT NULL DEFAULT '';
