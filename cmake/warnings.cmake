add_library(pgcourier_warnings INTERFACE)
target_compile_options(pgcourier_warnings INTERFACE
  -Wall -Wextra -Wformat=2 -Wformat-security -Wconversion -Wno-sign-conversion -Wimplicit-fallthrough
  -Wvla -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum -Wpointer-arith -Wwrite-strings
  -Wundef -Wcast-qual)
if(PGCOURIER_WERROR)
  target_compile_options(pgcourier_warnings INTERFACE -Werror)
endif()
