-- +goose Up

-- As postgres/00004_observed.sql.
ALTER TABLE sends ADD COLUMN observed text NOT NULL DEFAULT '';
