#!/bin/sh
# Makes the folder secrets beside compose.yaml: one file for each secret, random but for smtp_url, which is to be replaced by yours. Other
# users of this machine cannot enter the folder; its files are readable, for each container has a user of its own. Needs the image
# sendcode:local, or as arguments another command that makes keys: sh deploy/secrets.sh bin/sendcode key
set -eu
[ $# -gt 0 ] || set -- docker run --rm sendcode:local key
umask 077
mkdir secrets # fails if there are some already
umask 022
write() { printf '%s\n' "$2" > "secrets/$1"; }
random() { openssl rand -hex 24; }
ring=$("$@" --kind ring) index=$("$@" --kind index) api=$("$@" 2> /dev/null) # a failure ends the script here
owner=$(random) app=$(random) redis=$(random)
write secret_keys "$ring"
write index_key "$index"
write api_key "$(printf '%s\n' "$api" | head -1)"
write admin_password "$(random)"
write admin_token "$(random)"
write smtp_url smtp://user:password@mail.example.com:587
write redis_password "$redis"
write redis_url "redis://sendcode:$redis@redis:6379/0"
write postgres_password "$(random)" # of the superuser postgres, which nothing logs in as
write owner_password "$owner"
write app_password "$app"
write owner_url "postgres://sendcode_owner:$owner@postgres:5432/sendcode?sslmode=disable"
write database_url "postgres://sendcode_app:$app@postgres:5432/sendcode?sslmode=disable"
