-- +goose Up
-- As in postgres/00009_human_check.sql, which explains it.
ALTER TABLE sends ADD COLUMN human_check TEXT NOT NULL DEFAULT '';
