-- +goose Up
-- As in postgres/00004_check_key.sql, which explains it.
ALTER TABLE verifications ADD COLUMN check_key BLOB;
