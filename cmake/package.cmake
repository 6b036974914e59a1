# What is installed beside the program for those who write modules: the headers of the interface, and
# how CMake (find_package(pgcourier)) and pkg-config find them. All paths are relative to where the
# files are, so `cmake --install DIR --prefix ELSEWHERE` yields a package that works.
include(CMakePackageConfigHelpers)
file(STRINGS ${CMAKE_SOURCE_DIR}/include/pgcourier/version.h version REGEX "define PGCOURIER_VERSION ")
string(REGEX REPLACE ".*\"([^\"]*)\".*" "\\1" version "${version}")

set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/pgcourier)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/pgcourierConfig.cmake.in
  ${CMAKE_BINARY_DIR}/package/pgcourierConfig.cmake INSTALL_DESTINATION ${cmake_folder}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR PGCOURIER_MODULE_SUBFOLDER NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/pgcourierConfigVersion.cmake
  VERSION ${version} COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)
set(pc_folder ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /prefix/${pc_folder} /prefix)
string(REGEX REPLACE "/$" "" pc_to_prefix ${pc_to_prefix})
configure_file(${CMAKE_SOURCE_DIR}/cmake/pgcourier.pc.in ${CMAKE_BINARY_DIR}/package/pgcourier.pc @ONLY)

install(DIRECTORY include/pgcourier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/package/pgcourierConfig.cmake
  ${CMAKE_BINARY_DIR}/package/pgcourierConfigVersion.cmake DESTINATION ${cmake_folder} COMPONENT dev)
install(FILES ${CMAKE_BINARY_DIR}/package/pgcourier.pc DESTINATION ${pc_folder} COMPONENT dev)
install(FILES README.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT plain)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
# What README and docs lead to for those who watch a relay.
install(FILES contrib/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/contrib COMPONENT runtime)
install(DIRECTORY contrib/prometheus contrib/grafana DESTINATION ${CMAKE_INSTALL_DOCDIR}/contrib COMPONENT runtime)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
# Empty, for modules; another user with write access could run anything as pgcourier.
install(CODE "set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${PGCOURIER_MODULE_SUBFOLDER}\")
  file(MAKE_DIRECTORY \"\${folder}\")
  file(CHMOD \"\${folder}\" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
    GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)" COMPONENT runtime)

# The unit looks for /etc/pgcourier wherever the program is; see docs/install.md.
set(PGCOURIER_BINARY ${CMAKE_INSTALL_FULL_BINDIR}/pgcourier)
set(PGCOURIER_INSTANCE pgcourier)
set(PGCOURIER_UNIT_WORDS "")
configure_file(contrib/systemd/pgcourier.service.in ${CMAKE_BINARY_DIR}/package/pgcourier.service @ONLY)
# And the template, for several on one machine.
set(PGCOURIER_INSTANCE %i)
set(PGCOURIER_UNIT_WORDS " %i")
configure_file(contrib/systemd/pgcourier.service.in ${CMAKE_BINARY_DIR}/package/pgcourier@.service @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/pgcourier.service ${CMAKE_BINARY_DIR}/package/pgcourier@.service
  DESTINATION lib/systemd/system COMPONENT runtime)
install(FILES contrib/systemd/pgcourier.sysusers DESTINATION lib/sysusers.d RENAME pgcourier.conf
  COMPONENT runtime)
