-- +goose Up

-- As postgres/00022_by_browser.sql.
ALTER TABLE verifications ADD COLUMN by_browser INTEGER NOT NULL DEFAULT 0;
