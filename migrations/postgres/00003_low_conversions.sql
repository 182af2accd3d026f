-- +goose Up
-- +goose StatementBegin

-- Periods in which few of the codes that an app sent to strangers were entered (store.LowConversion).
CREATE TABLE low_conversions (
    id       uuid        NOT NULL PRIMARY KEY,
    app      text        NOT NULL,
    since    timestamptz NOT NULL,
    sends    integer     NOT NULL, -- that were looked at
    approved integer     NOT NULL, -- of them
    ended_at timestamptz
);
CREATE UNIQUE INDEX low_conversions_current ON low_conversions (app) WHERE ended_at IS NULL; -- one at a time
-- +goose StatementEnd
