# To hold the image by its digest, write @sha256:… behind its tag, as "docker buildx imagetools inspect" shows it.
FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# What "sendcode version" says: docker build --build-arg VERSION=$(make version). The architecture is that of --platform.
ARG VERSION= TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -trimpath -buildvcs=false -ldflags="-s -w -X sendcode/internal/run/app.version=$VERSION" -o /sendcode ./cmd/sendcode

# Templates and migrations are in the binary; what is left to bring
# are the certificates that mail servers, Redis and Postgres are checked against.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sendcode /sendcode
# The SQLite file; with Postgres nothing is written there. An empty folder of the base image gives it an owner.
COPY --from=build --chown=65532:65532 /srv /data
ENV SENDCODE_DATA_DIR=/data
ARG VERSION=
LABEL org.opencontainers.image.title="sendcode" \
      org.opencontainers.image.description="Verification codes by e-mail and text message, never more often than a policy says" \
      org.opencontainers.image.version="$VERSION"
USER 65532:65532
# A platform gives another one; SENDCODE_ADDR overrides both.
ENV PORT=8080
EXPOSE 8080 8081
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s CMD ["/sendcode", "health"]
ENTRYPOINT ["/sendcode"]
CMD ["serve"]
