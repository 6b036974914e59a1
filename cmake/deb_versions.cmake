# Read by cpack, when it knows which version it packs (scripts/package VERSION).
set(CPACK_DEBIAN_KAFKA_PACKAGE_DEPENDS
  "pgcourier (= ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}), librdkafka1 (>= 2.0.2)")
