# docker build -t pgcourier .
# docker run -v ./pgcourier.yaml:/etc/pgcourier/pgcourier.yaml:ro pgcourier
#
# Needs no writable file system and no capability.

FROM debian:12-slim AS build
WORKDIR /src
COPY scripts/deps scripts/deps
RUN scripts/deps --build
COPY . .
RUN scripts/build

FROM debian:12-slim
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    ca-certificates libc-ares2 libcurl4 libcyaml1 libhiredis0.14 libjansson4 libmicrohttpd12 libpq5 libsmartcols1 libssl3 libuv1 \
    libyaml-0-2 zlib1g \
  && rm -rf /var/lib/apt/lists/*
COPY --from=build /src/build/pgcourier /usr/local/bin/pgcourier
USER 10001:10001
STOPSIGNAL SIGTERM
ENTRYPOINT ["pgcourier"]
CMD ["run", "-c", "/etc/pgcourier/pgcourier.yaml"]
