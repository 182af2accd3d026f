# To keep the image at its digest, write @sha256:… behind its tag ("docker buildx imagetools inspect" shows the digest).
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# "sendcode version" prints this: docker build --build-arg VERSION=$(make version). The architecture is that of --platform.
ARG VERSION= TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags="-s -w -X sendcode/internal/run/app.version=$VERSION" -o /sendcode ./cmd/sendcode

# Templates and migrations are in the binary. The image adds only the authorities by
# which the service checks the certificates of mail servers, Redis and Postgres.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sendcode /sendcode
# The folder of the SQLite file. With Postgres nothing is written there. Its owner is that of an empty folder of the base image.
COPY --from=build --chown=65532:65532 /srv /data
ENV SENDCODE_DATA_DIR=/data
ARG VERSION=
LABEL org.opencontainers.image.title="sendcode" \
      org.opencontainers.image.description="Verification codes by e-mail and text message, never more often than a policy says" \
      org.opencontainers.image.version="$VERSION"
USER 65532:65532
# A platform may set another port. SENDCODE_ADDR overrides both.
ENV PORT=8080
EXPOSE 8080 8081
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s CMD ["/sendcode", "health"]
ENTRYPOINT ["/sendcode"]
CMD ["serve"]
