#!/bin/sh
# Makes the folder secrets beside compose.yaml: one file for each secret, random but for smtp_url, which is to be replaced by yours. Other
# users of this machine cannot enter the folder; its files are readable, for each container has a user of its own. Needs the image
# sendcode:local, or as arguments another command that makes keys: sh deploy/secrets.sh bin/sendcode key
set -eu
[ $# -gt 0 ] || set -- docker run --rm sendcode:local key
[ ! -e secrets ] || { echo "the folder secrets exists already, so nothing was written: move it away" >&2; exit 1; }
write() { printf '%s\n' "$2" > "secrets/$1"; }
random() { openssl rand -hex 24; }
ring=$("$@" --kind ring) index=$("$@" --kind index) api=$("$@" --kind secret 2> /dev/null)
owner=$(random) app=$(random) redis=$(random) password=$(random) token=$(random) postgres=$(random)
# A failure has ended the script by now, before there is a folder.
umask 077
mkdir secrets
umask 022
write secret_keys "$ring"
write index_key "$index"
write api_key "$api"
write admin_password "$password"
write admin_token "$token"
write smtp_url smtp://user:password@mail.example.com:587
write redis_password "$redis"
write redis_url "redis://sendcode:$redis@redis:6379/0"
write postgres_password "$postgres" # of the superuser postgres, which nothing logs in as
write owner_password "$owner"
write app_password "$app"
write owner_url "postgres://sendcode_owner:$owner@postgres:5432/sendcode?sslmode=disable"
write database_url "postgres://sendcode_app:$app@postgres:5432/sendcode?sslmode=disable"
