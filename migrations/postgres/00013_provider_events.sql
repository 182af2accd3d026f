-- +goose Up

-- What a mail provider told of a mail that it had taken. Events are added, once for each kind, and change no status: so
-- duplicates and late ones take nothing back.
CREATE TABLE provider_events (
    send_id  uuid        NOT NULL,
    kind     text        NOT NULL CHECK (kind IN ('delivered', 'bounced', 'complained', 'opted_out')),
    at       timestamptz NOT NULL, -- as the provider says, no later than it was heard
    heard_at timestamptz NOT NULL,
    provider text        NOT NULL, -- its name in the configuration
    detail   text        NOT NULL, -- reply code and enhanced status code, or one word
    PRIMARY KEY (send_id, kind)
);

-- The worst of them, for lists; '' is none.
ALTER TABLE sends ADD COLUMN IF NOT EXISTS afterwards text NOT NULL DEFAULT '';
