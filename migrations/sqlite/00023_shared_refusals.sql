-- +goose Up

-- As postgres/00023_shared_refusals.sql.
ALTER TABLE sends ADD COLUMN recipients INTEGER NOT NULL DEFAULT 0;
