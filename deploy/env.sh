#!/bin/sh
# Prints a .env for compose.yaml: random secrets, and a mail server and sender to be replaced by yours. Needs the image sendcode:local.
set -eu
ring=$(docker run --rm sendcode:local key --kind ring) # here a failure ends the script, below it would not
index=$(docker run --rm sendcode:local key --kind index)
api=$(docker run --rm sendcode:local key 2> /dev/null)
random=$(openssl rand -hex 120)
part() { printf %s "$random" | cut -c "$1"; }
cat <<ENV
POSTGRES_PASSWORD=$(part 1-48)
DATABASE_OWNER_PASSWORD=$(part 49-96)
DATABASE_APP_PASSWORD=$(part 97-144)
REDIS_PASSWORD=$(part 145-192)
SENDCODE_SECRET_KEYS=$ring
SENDCODE_INDEX_KEY=$index
SENDCODE_API_KEY=$(printf '%s\n' "$api" | head -1)
SENDCODE_ADMIN_PASSWORD=$(part 193-240)
SENDCODE_SMTP_URL='smtp://user:password@mail.example.com:587'
SENDCODE_MAIL_FROM='Shop <no-reply@shop.example>'
ENV
