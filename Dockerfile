# To hold the image by its digest, write @sha256:… behind its tag, as "docker buildx imagetools inspect" shows it.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /sendcode ./cmd/sendcode

# Templates and migrations are in the binary; what is left to bring
# are the certificates that mail servers, Redis and Postgres are checked against.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /sendcode /sendcode
USER 65532:65532
ENV SENDCODE_ADDR=0.0.0.0:8080
EXPOSE 8080 8081
ENTRYPOINT ["/sendcode"]
CMD ["serve"]
