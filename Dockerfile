# docker build -t pgcourier .
# docker run -v ./pgcourier.yaml:/etc/pgcourier/pgcourier.yaml:ro pgcourier
#
# The same with the sink of Kafka and its library: docker build --target kafka -t pgcourier:kafka .
#
# Needs no writable file system, no capability and no shell. The health check asks the admin endpoint
# of the configuration (`admin: {}`); without one, switch it off: --no-healthcheck.

FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/deps scripts/deps
RUN scripts/deps --build
COPY . .
RUN scripts/build

FROM debian:12-slim AS plain
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="pgcourier" \
  org.opencontainers.image.description="Carries events from a PostgreSQL outbox to Redis, NATS, RabbitMQ, Kafka, webhooks and e-mail" \
  org.opencontainers.image.version="$VERSION" \
  org.opencontainers.image.revision="$REVISION" \
  org.opencontainers.image.licenses="PostgreSQL"
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    ca-certificates libc-ares2 libcurl4 libhiredis0.14 libjansson4 libmicrohttpd12 libpq5 libsmartcols1 \
    libssl3 libuv1 libyaml-0-2 zlib1g \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/pgcourier /usr/local/bin/pgcourier
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["pgcourier", "health", "-c", "/etc/pgcourier/pgcourier.yaml"]
ENTRYPOINT ["pgcourier"]
CMD ["run", "-c", "/etc/pgcourier/pgcourier.yaml"]

FROM plain AS kafka
USER root
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends librdkafka1 \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/modules/kafka.so /usr/local/lib/pgcourier/modules/
USER 10001:10001

# What is built without --target.
FROM plain
