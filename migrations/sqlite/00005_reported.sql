-- +goose Up
-- As in postgres/00005_reported.sql, which explains it.
ALTER TABLE verifications ADD COLUMN reported TEXT NOT NULL DEFAULT '';
