-- +goose Up

-- Messages that a carrier took and of which nothing final is known: it tells of them by its own ID, or is asked. A row goes once
-- there is a receipt, and after three days (package audit, awaited.go).
CREATE TABLE awaited (
    carrier    text        NOT NULL, -- its name in the configuration
    message_id text        NOT NULL, -- the carrier's
    send_id    uuid        NOT NULL,
    at         timestamptz NOT NULL,
    ask_at     timestamptz,          -- when it is asked next; NULL: never
    asked      integer     NOT NULL DEFAULT 0,
    PRIMARY KEY (carrier, message_id)
);
CREATE INDEX awaited_send ON awaited (send_id);
CREATE INDEX awaited_ask ON awaited (ask_at) WHERE ask_at IS NOT NULL;
CREATE INDEX awaited_at ON awaited (at);
