# pgcourier_headers_alone: compiles every header of include/ and src/ by itself, twice included, so
# that none depends on what another file happened to include before it.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
  ${CMAKE_SOURCE_DIR}/include/*.h ${CMAKE_SOURCE_DIR}/src/*.h)
set(sources)
foreach(header ${headers})
  string(REGEX REPLACE "^(include|src)/" "" name ${header})
  set(source ${CMAKE_BINARY_DIR}/headers_alone/${name}.c)
  file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${name}\"\n#include \"${name}\"\n")
  list(APPEND sources ${source})
endforeach()
set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS "-fno-sanitize=all;-g0") # nothing runs
add_library(pgcourier_headers_alone OBJECT EXCLUDE_FROM_ALL ${sources})
target_link_libraries(pgcourier_headers_alone PRIVATE pgcourier_common PkgConfig::LIBPQ
  PkgConfig::LIBUV PkgConfig::HIREDIS PkgConfig::CARES PkgConfig::LIBYAML PkgConfig::JANSSON
  CURL::libcurl OpenSSL::Crypto)
