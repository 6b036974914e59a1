# The Debian packages pgcourier, pgcourier-kafka and pgcourier-dev, by CPack; scripts/package builds them. Everything
# that only a package needs is in the component "debian", which a plain `cmake --install` leaves out;
# what a package has in another form is in the component "plain".
set(package_folder ${CMAKE_BINARY_DIR}/package)

set(PGCOURIER_MAINTAINER "pgcourier maintainers <maintainers@pgcourier.invalid>" CACHE STRING
  "Who distributes the packages")
# Times in the packages are those of $SOURCE_DATE_EPOCH.
string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(contrib/debian/changelog.in ${package_folder}/changelog.Debian @ONLY)
find_program(GZIP gzip)
if(GZIP)
  execute_process(COMMAND ${GZIP} -9nf ${package_folder}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
  configure_file(CHANGELOG.md ${package_folder}/changelog COPYONLY)
  execute_process(COMMAND ${GZIP} -9nf ${package_folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  foreach(name pgcourier pgcourier-kafka pgcourier-dev)
    install(FILES contrib/debian/copyright ${package_folder}/changelog.Debian.gz ${package_folder}/changelog.gz
      DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT debian_${name} EXCLUDE_FROM_ALL)
    install(FILES contrib/debian/lintian/${name} DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
      COMPONENT debian_${name} EXCLUDE_FROM_ALL)
  endforeach()
  install(FILES contrib/pgcourier.yaml DESTINATION /etc/pgcourier PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ
    COMPONENT debian_pgcourier EXCLUDE_FROM_ALL)
  # For LoadCredential: files that only the service sees.
  install(DIRECTORY DESTINATION /etc/pgcourier/secrets DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE
    OWNER_EXECUTE COMPONENT debian_pgcourier EXCLUDE_FROM_ALL)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pgcourier)
set(CPACK_PACKAGE_VENDOR "the pgcourier authors")
set(CPACK_PACKAGE_CONTACT ${PGCOURIER_MAINTAINER})
set(CPACK_PACKAGE_VERSION ${version})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON) # some files are in /etc
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_OUTPUT_FILE_PREFIX ${CMAKE_BINARY_DIR})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime debian_pgcourier dev debian_pgcourier-dev)
if(PGCOURIER_KAFKA)
  list(APPEND CPACK_COMPONENTS_ALL kafka debian_pgcourier-kafka)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_RUNTIME_GROUP main)
set(CPACK_COMPONENT_DEBIAN_PGCOURIER_GROUP main)
set(CPACK_COMPONENT_KAFKA_GROUP kafka)
set(CPACK_COMPONENT_DEBIAN_PGCOURIER-KAFKA_GROUP kafka)
set(CPACK_COMPONENT_DEV_GROUP dev)
set(CPACK_COMPONENT_DEBIAN_PGCOURIER-DEV_GROUP dev)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_MAIN_PACKAGE_NAME pgcourier)
set(CPACK_DEBIAN_MAIN_PACKAGE_SECTION database)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_DEPENDS
  "ca-certificates, init-system-helpers (>= 1.52), passwd, systemd | systemd-standalone-sysusers | systemd-sysusers")
set(CPACK_DEBIAN_MAIN_PACKAGE_SUGGESTS "postgresql, pgcourier-kafka, pgcourier-dev")
set(CPACK_DEBIAN_MAIN_DESCRIPTION
"An application writes its rows and its events in one transaction. pgcourier
wakes when it commits and delivers the events; it tries again, keeps what
cannot be delivered, and never loses one.")
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA
  "${CMAKE_SOURCE_DIR}/contrib/debian/conffiles;${CMAKE_SOURCE_DIR}/contrib/debian/postinst"
  "${CMAKE_SOURCE_DIR}/contrib/debian/prerm;${CMAKE_SOURCE_DIR}/contrib/debian/postrm")

# The program takes this one of its own version, and no other: deb_versions.cmake, for a version given to
# cpack.
set(CPACK_DEBIAN_KAFKA_PACKAGE_NAME pgcourier-kafka)
set(CPACK_DEBIAN_KAFKA_PACKAGE_SECTION database)
set(CPACK_DEBIAN_KAFKA_PACKAGE_SHLIBDEPS ON)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/deb_versions.cmake)
set(CPACK_DEBIAN_KAFKA_DESCRIPTION
"Writes events to topics of Apache Kafka, by librdkafka. A relay loads this
module if its configuration has a sink with a kafka block.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME pgcourier-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libuv1-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION
"Headers for modules that carry events to further places, for C compilers,
CMake and pkg-config, and an example.")
include(CPack)
