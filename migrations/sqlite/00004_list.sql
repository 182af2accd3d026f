-- +goose Up
-- +goose StatementBegin

-- The console's list by app, channel and purpose (sqlite.kindSQL), by mail server or carrier, and of
-- texts that arrived. Postgres has sends_kind, refusals_kind and minute_index for them.
CREATE INDEX sends_kind     ON sends (app || '/' || channel || '/' || purpose, logged_at, id);
CREATE INDEX refusals_kind  ON refusals (app || '/' || channel || '/' || purpose, logged_at, id);
CREATE INDEX sends_provider ON sends (provider, logged_at, id) WHERE provider <> '';
CREATE INDEX sends_receipt  ON sends (receipt, logged_at, id) WHERE receipt <> '';
-- +goose StatementEnd
